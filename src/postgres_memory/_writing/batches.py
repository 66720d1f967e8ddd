"""Bulk loading, second half: one prepared batch into the database, whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .._context import Context
from .._json import encode_metadata
from .._relation_json import encode_relation
from ..errors import DatabaseError
from ..records import MemoryType, relation_key
from . import copy_format as copy
from .adding import Addition, Dedupe, OnConflict
from .preparing import Batch, Simple, id_of, whole_of

_UNIQUE_VIOLATION = "23505"
_FOREIGN_KEY_VIOLATION = "23503"

_MEMORY_COLUMNS = ("namespace", "id", "seq", "content", "metadata")
_WHOLE_COLUMNS = (
    *_MEMORY_COLUMNS,
    "created_at",
    "updated_at",
    "memory_type",
    "status",
    "importance",
    "confidence",
    "tags",
    "thread_id",
    "session_id",
    "owner",
    "readers",
    "writers",
    "expires_at",
)
_HASH_COLUMNS = ("namespace", "seq", "status", "embedding")
_DATED_HASH_COLUMNS = (*_HASH_COLUMNS, "expires_at")


class BatchRefusedError(Exception):
    """The batch cannot be stored; ``failures`` are (position, reason), empty where the culprit is not known."""

    def __init__(self, reason: str, failures: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(reason)
        self.failures = list(failures)


async def store_batch(context: Context, batch: Batch, on_conflict: OnConflict, dedupe: Dedupe | None) -> int:
    """Write the batch in one transaction and return how many memories were stored. Raises BatchRefusedError."""
    try:
        async with context.transaction() as inside:
            if on_conflict == "error":
                await _refuse_existing(inside, batch)
            if on_conflict == "error" and dedupe is None:
                written = await _copy(inside, batch)
            else:
                written = await _insert(inside, batch, on_conflict, dedupe)
            await _relate(inside, batch, written)
    except DatabaseError as error:
        if error.sqlstate == _UNIQUE_VIOLATION:
            raise BatchRefusedError("another memory has the same id or deduped content") from error
        if error.sqlstate == _FOREIGN_KEY_VIOLATION:
            raise BatchRefusedError("a related memory was deleted meanwhile") from error
        raise
    return len(written)


async def _refuse_existing(context: Context, batch: Batch) -> None:
    from .._sql.bulk import existing_ids

    named = [item.record.id for item in batch.items if isinstance(item, Addition) and item.named]
    if not named:
        return
    twice = {id_ for id_, count in Counter(named).items() if count > 1}
    rows = await context.fetch(existing_ids, {"namespace": context.namespace, "ids": named})
    taken = {row["id"] for row in rows}
    failures = [
        (
            position,
            "id: is given twice in one batch"
            if id_of(item) in twice
            else "id: there is such a memory already",
        )
        for position, item in enumerate(batch.items)
        if id_of(item) in twice | taken
    ]
    if failures:
        raise BatchRefusedError("ids are taken", failures)


async def _copy(context: Context, batch: Batch) -> set[str]:
    """COPY memories and hash embeddings; the numbers of the insertion order are taken beforehand to join the two."""
    from .._sql.bulk import allocate

    assert batch.counts is not None
    (row,) = await context.fetch(allocate, {"count": len(batch.items)})
    seqs, now = row["seqs"], row["now"]
    simple = [position for position, item in enumerate(batch.items) if isinstance(item, Simple)]
    whole = [position for position, item in enumerate(batch.items) if isinstance(item, Addition)]
    if simple:
        rows = _simple_rows(context.namespace, batch, simple, seqs)
        await context.copy("memories", _MEMORY_COLUMNS, rows)
        hashes = copy.hash_rows(
            context.namespace, [seqs[position] for position in simple], "active", batch.counts[simple]
        )
        await context.copy("memory_hash_embeddings", _HASH_COLUMNS, copy.document([hashes]))
    if whole:
        rows, dated_hashes = _whole_rows(context, batch, whole, seqs, now)
        await context.copy("memories", _WHOLE_COLUMNS, rows)
        await context.copy("memory_hash_embeddings", _DATED_HASH_COLUMNS, dated_hashes)
    return {id_of(item) for item in batch.items}


def _simple_rows(namespace: str, batch: Batch, positions: Sequence[int], seqs: Sequence[int]) -> bytes:
    head = copy.columns(len(_MEMORY_COLUMNS)) + copy.text(namespace)
    text, bigint, json_ = copy.text, copy.bigint, copy.json
    parts: list[bytes] = []
    for position in positions:
        item = batch.items[position]
        assert isinstance(item, Simple)
        parts += (head, text(item.id), bigint(seqs[position]), text(item.content), json_(item.metadata))
    return copy.document(parts)


def _whole_rows(
    context: Context, batch: Batch, positions: Sequence[int], seqs: Sequence[int], now: datetime
) -> tuple[bytes, bytes]:
    assert batch.counts is not None
    head = copy.columns(len(_WHOLE_COLUMNS)) + copy.text(context.namespace)
    memories: list[bytes] = []
    hashes: list[bytes] = []
    for position in positions:
        item = batch.items[position]
        assert isinstance(item, Addition)
        record, seq = item.record, seqs[position]
        expires_at = expiry(context, item, now)
        memories += (
            head,
            copy.text(record.id),
            copy.bigint(seq),
            copy.text(record.content),
            copy.json(encode_metadata(record.metadata)),
            copy.time(record.created_at if item.dated else now),
            copy.time(now),
            copy.text(record.memory_type.value),
            copy.text(record.status.value),
            copy.double(record.importance),
            copy.double(record.confidence),
            copy.texts(record.tags),
            copy.text(record.thread_id),
            copy.text(record.session_id),
            copy.text(record.permissions.owner),
            copy.texts(record.permissions.readers),
            copy.texts(record.permissions.writers),
            copy.time(expires_at),
        )
        row = copy.hash_row(context.namespace, seq, record.status.value, batch.counts[position])
        hashes.append(row + copy.time(expires_at))
    return copy.document(memories), copy.document(hashes)


def expiry(context: Context, item: Addition, now: datetime) -> datetime | None:
    """Return when an item expires: as given, or after the time sessions live."""
    record = item.record
    if record.expires_at is not None or record.memory_type is not MemoryType.SESSION:
        return record.expires_at
    return None if context.session_ttl is None else now + context.session_ttl


async def _insert(context: Context, batch: Batch, on_conflict: OnConflict, dedupe: Dedupe | None) -> set[str]:
    """Insert by one statement that meets conflicts; of one id given twice the first stays, or the last if updating."""
    from .._sql.bulk import allocate, insert_rows
    from .._sql.keys import release_expired_keys

    assert batch.counts is not None
    update_existing = on_conflict == "update"
    if dedupe is not None:
        await context.fetch(release_expired_keys, {"namespace": context.namespace})
    (row,) = await context.fetch(allocate, {"count": 0})
    chosen: dict[str, int] = {}
    for position, item in enumerate(batch.items):
        if update_existing or id_of(item) not in chosen:
            chosen[id_of(item)] = position
    rows = [_json_row(context, batch, position, row["now"]) for position in chosen.values()]
    parameters = {
        "namespace": context.namespace,
        "rows": f"[{','.join(rows)}]",
        "dedupe": dedupe == "content",
    }
    return {row["id"] for row in await context.fetch(insert_rows, parameters, update_existing)}


def _json_row(context: Context, batch: Batch, position: int, now: datetime) -> str:
    assert batch.counts is not None
    item = batch.items[position]
    if isinstance(item, Simple):
        item = whole_of(context, item)
    record = item.record
    expires_at = expiry(context, item, now)
    values: dict[str, Any] = {
        "position": position,
        "counts": batch.counts[position].tolist(),
        "id": record.id,
        "content": record.content,
        "memory_type": record.memory_type.value,
        "status": record.status.value,
        "created_at": record.created_at.isoformat() if item.dated else None,
        "importance": record.importance,
        "confidence": record.confidence,
        "tags": record.tags,
        "thread_id": record.thread_id,
        "session_id": record.session_id,
        "owner": record.permissions.owner,
        "readers": record.permissions.readers,
        "writers": record.permissions.writers,
        "expires_at": None if expires_at is None else expires_at.isoformat(),
    }
    head = json.dumps(values, ensure_ascii=False)
    return f'{head[:-1]},"metadata":{encode_metadata(record.metadata)}}}'


async def _relate(context: Context, batch: Batch, written: set[str]) -> None:
    """Store the relations of the memories that were written; their targets may be anywhere in the batch."""
    from .._sql.bulk import insert_relations, missing_targets

    edges = [
        (position, item.record.id, relation)
        for position, item in enumerate(batch.items)
        if isinstance(item, Addition) and item.record.id in written
        for relation in item.record.relations
    ]
    if not edges:
        return
    unique = {(source, relation_key(relation)): (source, relation) for _, source, relation in edges}
    text = ",".join(encode_relation(relation, source) for source, relation in unique.values())
    parameters = {"namespace": context.namespace, "relations": f"[{text}]"}
    missing = {row["target_id"] for row in await context.fetch(missing_targets, parameters)}
    failures = [
        (position, f"relations: no memory {relation.target_id!r} to relate to")
        for position, _, relation in edges
        if relation.target_id in missing
    ]
    if failures:
        raise BatchRefusedError("targets of relations are missing", failures)
    await context.fetch(insert_relations, parameters)
