"""Relations as JSON text, for statements that take or give several at once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ._json import encode_metadata
from .records import MemoryRelation, MemoryRelationType, relation_from_values

#: Members by value: calling the enum takes ten times as long.
_TYPES = {member.value: member for member in MemoryRelationType}


def encode_relations(relations: Iterable[MemoryRelation]) -> str:
    """Return a JSON array of objects with the columns of the join table."""
    return f"[{','.join(encode_relation(relation) for relation in relations)}]"


def encode_relation(relation: MemoryRelation, source_id: str | None = None) -> str:
    """Return one of those objects, with the id of the memory it starts at."""
    head = json.dumps(
        {
            "source_id": source_id,
            "target_id": relation.target_id,
            "relation_type": relation.relation_type.value,
            "label": relation.label,
            "confidence": relation.confidence,
        },
        ensure_ascii=False,
    )
    return f'{head[:-1]},"metadata":{encode_metadata(relation.metadata, "relation.metadata")}}}'


def decode_relations(text: str | None) -> tuple[MemoryRelation, ...]:
    """Return relations from a JSON array of [target, type, confidence, metadata, label]; none from None."""
    if text is None:
        return ()
    items: list[tuple[str, str, float, dict[str, Any], str]] = json.loads(text)
    return tuple(
        [
            relation_from_values(target, _TYPES[kind], float(confidence), metadata, label)
            for target, kind, confidence, metadata, label in items
        ]
    )
