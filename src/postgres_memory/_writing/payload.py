"""What makes two calls the same for an idempotency key."""

from __future__ import annotations

import hashlib
import json

from .._json import encode_metadata
from .._relation_json import encode_relations
from ..records import MemoryRecord


def payload_digest(
    record: MemoryRecord, *, with_id: bool, with_created_at: bool, replaces: str | None
) -> bytes:
    """Return 32 bytes that stand for everything the caller said about a memory, and for nothing that was made up."""
    said = {
        "id": record.id if with_id else None,
        "replaces": replaces,
        "created_at": record.created_at.isoformat() if with_created_at else None,
        "content": record.content,
        "memory_type": record.memory_type.value,
        "status": record.status.value,
        "expires_at": None if record.expires_at is None else record.expires_at.isoformat(),
        "importance": record.importance,
        "confidence": record.confidence,
        "tags": record.tags,
        "thread_id": record.thread_id,
        "session_id": record.session_id,
        "permissions": [record.permissions.owner, record.permissions.readers, record.permissions.writers],
        # Through objects of their own, dumped with sorted keys: the order of keys says nothing.
        "relations": json.loads(encode_relations(record.relations)),
        "metadata": json.loads(encode_metadata(record.metadata)),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).digest()
