"""Bulk loading, second half: one prepared batch into the database, whole or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .._context import Context
from .._json import encode_metadata
from .._relation_json import encode_relation
from ..errors import DatabaseError
from ..records import MemoryRelation, MemoryType, relation_key
from . import copy_format as copy
from .adding import Addition, OnConflict
from .deciding import BatchRefusedError, Decision, decide
from .embedding import space_of
from .preparing import Batch, Numbers

_UNIQUE_VIOLATION = "23505"
_FOREIGN_KEY_VIOLATION = "23503"
#: What others wrote meanwhile is met by deciding again; as often as this.
_ATTEMPTS = 20
_MET_AGAIN = {
    _UNIQUE_VIOLATION: "another memory has the same id or deduped content",
    _FOREIGN_KEY_VIOLATION: "a related memory was deleted meanwhile",
}

_SIMPLE_COLUMNS = ("namespace", "language", "id", "seq", "content", "metadata")
_DEDUPED_COLUMNS = (*_SIMPLE_COLUMNS, "content_key")
_WHOLE_COLUMNS = (
    *_DEDUPED_COLUMNS,
    "created_at",
    "updated_at",
    "memory_type",
    "status",
    "importance",
    "confidence",
    "tags",
    "thread_id",
    "place",
    "session_id",
    "owner",
    "readers",
    "writers",
    "expires_at",
)
_HASH_COLUMNS = ("namespace", "seq", "status", "embedding")
_DATED_HASH_COLUMNS = (*_HASH_COLUMNS, "expires_at")


async def store_batch(
    context: Context, batch: Batch, on_conflict: OnConflict, before: asyncio.Task[None] | None
) -> int:
    """Write the batch in one transaction and return how many memories were stored. Raises BatchRefusedError.

    It commits when ``before`` is over, the batch that is written beside it, and not at all if that failed.
    """

    async def work(inside: Context) -> int:
        stored = await _store(inside, batch, on_conflict)
        if before is not None:
            await over(before)
        return stored

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await context.retried(work, quiet=True)
        except DatabaseError as error:
            reason = _MET_AGAIN.get(error.sqlstate or "")
            if reason is None:
                raise
            if attempt == _ATTEMPTS:
                raise BatchRefusedError(reason) from error
    raise AssertionError("unreachable")


async def over(task: asyncio.Task[None]) -> None:
    """Wait for a task and raise what it raised; who waits here and is cancelled does not cancel it."""
    await asyncio.wait([task])
    task.result()


async def _store(context: Context, batch: Batch, on_conflict: OnConflict) -> int:
    decision = await decide(context, batch, on_conflict)
    edges = _edges(batch, decision)
    if edges:
        await _refuse_missing(context, batch, decision, edges)
    if decision.updates:
        await _update(context, batch, decision)
    if decision.new and context.principal is None:
        await _copy(context, batch, decision.new)
    elif decision.new:
        await _insert(context, batch, decision)
    if edges:
        await _relate(context, edges)
    return len(decision.new) + len(decision.updates)


async def _copy(context: Context, batch: Batch, new: Sequence[int]) -> None:
    """COPY memories and hash embeddings; the numbers of the insertion order are taken beforehand to join the two.

    The numbers follow the input. The rows follow what is unique about them, so that two loads of the same memories wait
    for each other in one order.
    """
    from .._sql.changes import tell_of_loaded

    threads = {batch.whole[position].record.thread_id for position in new if position in batch.whole}
    numbers = batch.numbers or await _allocate(context, len(new), threads)
    seqs = dict(zip(new, numbers.seqs, strict=True))
    simple = [position for position in new if position in batch.simple]
    whole = [position for position in new if position in batch.whole]
    if batch.deduped:
        simple.sort(key=batch.keys.__getitem__)
        whole.sort(key=batch.keys.__getitem__)
    else:
        whole.sort(key=batch.id_of)
    if simple:
        memories, hashes = _simple_rows(context.namespace, batch, simple, seqs, numbers.language)
        await context.copy("memories", _DEDUPED_COLUMNS if batch.deduped else _SIMPLE_COLUMNS, memories)
        await context.copy("memory_hash_embeddings", _HASH_COLUMNS, hashes)
    if whole:
        places = _places(batch, new, numbers)
        memories, hashes = await asyncio.to_thread(_whole_rows, context, batch, whole, seqs, places, numbers)
        await context.copy("memories", _WHOLE_COLUMNS, memories)
        await context.copy("memory_hash_embeddings", _DATED_HASH_COLUMNS, hashes)

    if batch.vectors is not None or batch.text_vectors:
        await _copy_vectors(context, batch, new, numbers.seqs)
    if not context.quiet:
        await context.fetch(tell_of_loaded, {"namespace": context.namespace, "seqs": numbers.seqs})


async def _insert(context: Context, batch: Batch, decision: Decision) -> None:
    """Insert what policies keep from being copied. The items of a principal are all whole."""
    from .._sql.inserting import insert_fields, insert_hashes, insert_memories, insert_vectors

    now = (await _allocate(context, 0)).now
    keys = {position: batch.keys[position] for position in decision.new if position in batch.keys}
    rows = [_json_row(context, batch, keys, position, now) for position in decision.new]
    parameters = {"namespace": context.namespace, "rows": f"[{','.join(rows)}]"}
    await context.fetch(insert_memories, parameters)
    await context.fetch(insert_hashes, parameters)
    if batch.vectors is not None:
        await context.fetch(insert_vectors, parameters | space_of(context, batch.vectors))
    if batch.text_vectors:
        await context.fetch(insert_fields, parameters | space_of(context, batch.vectors))


async def _copy_vectors(context: Context, batch: Batch, new: Sequence[int], numbers: list[int]) -> None:
    """COPY the vectors of new memories. If their space was dropped meanwhile, they wait to be embedded again."""
    from .._sql.embedded_fields import FIELD_COLUMNS
    from .._sql.embeddings import COLUMNS
    from .._sql.spaces import hold_space

    given = space_of(context, batch.vectors)
    if not await context.fetch(hold_space, given | {"namespace": context.namespace}):
        return
    namespace, space = context.namespace, given["space"]
    if batch.vectors is not None:
        vectors = batch.vectors if len(new) == batch.size else batch.vectors[list(new)]
        rows = copy.vector_rows(namespace, space, numbers, vectors)
        await context.copy("memory_embeddings", COLUMNS, copy.document([rows]))
    fields = [
        copy.field_vector_row(namespace, space, seq, *one)
        for position, seq in zip(new, numbers, strict=True)
        for one in batch.text_vectors.get(position, ())
    ]
    if fields:
        await context.copy("memory_embeddings", FIELD_COLUMNS, copy.document(fields))


async def take_numbers(context: Context, batch: Batch) -> None:
    """Take the numbers of a batch, all of whose memories are new, before it is written."""
    batch.numbers = await _allocate(context, batch.size)


async def _allocate(context: Context, count: int, threads: Collection[str | None] = ()) -> Numbers:
    from .._sql.bulk import allocate

    named = sorted(thread for thread in threads if thread is not None)
    (row,) = await context.fetch(allocate, {"namespace": context.namespace, "count": count, "threads": named})
    places = dict(zip(named, row["places"] or (), strict=True))
    return Numbers(row["seqs"], row["now"], row["language"], places)


def _places(batch: Batch, new: Sequence[int], numbers: Numbers) -> dict[int, int]:
    """Number the memories of each thread in the order of the input."""
    following = dict(numbers.places)
    places: dict[int, int] = {}
    for position in new:
        thread = batch.whole[position].record.thread_id if position in batch.whole else None
        if thread is not None:
            places[position] = following[thread]
            following[thread] += 1
    return places


def _simple_rows(
    namespace: str, batch: Batch, positions: Sequence[int], seqs: dict[int, int], language: str
) -> tuple[bytes, bytes]:
    assert batch.counts is not None
    numbers = [seqs[position] for position in positions]
    width = len(_DEDUPED_COLUMNS if batch.deduped else _SIMPLE_COLUMNS)
    rows: list[bytes] = [b""] * (2 * len(positions))
    rows[::2] = copy.heads(namespace, language, width, batch.ids[positions], numbers)
    rows[1::2] = [batch.simple[position] for position in positions]
    hashes = copy.hash_rows(namespace, numbers, "active", batch.counts[positions])
    return copy.document(rows), copy.document([hashes])


def _whole_rows(
    context: Context,
    batch: Batch,
    positions: Sequence[int],
    seqs: dict[int, int],
    places: dict[int, int],
    numbers: Numbers,
) -> tuple[bytes, bytes]:
    assert batch.counts is not None
    now = numbers.now
    head = copy.columns(len(_WHOLE_COLUMNS)) + copy.text(context.namespace) + copy.text(numbers.language)
    memories: list[bytes] = []
    hashes: list[bytes] = []
    for position in positions:
        item = batch.whole[position]
        record, seq = item.record, seqs[position]
        expires_at = expiry(context, item, now)
        memories += (
            head,
            copy.text(record.id),
            copy.bigint(seq),
            copy.text(record.content),
            copy.json(encode_metadata(record.metadata)),
            copy.bytea(batch.keys.get(position)),
            copy.time(record.created_at if item.dated else now),
            copy.time(now),
            copy.text(record.memory_type.value),
            copy.text(record.status.value),
            copy.double(record.importance),
            copy.double(record.confidence),
            copy.texts(record.tags),
            copy.text(record.thread_id),
            copy.bigint(places[position]) if position in places else copy.NULL,
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


async def _update(context: Context, batch: Batch, decision: Decision) -> None:
    from .._sql.bulk import release_keys, update_rows

    now = (await _allocate(context, 0)).now
    rows = [_json_row(context, batch, decision.keys, position, now) for position in decision.updates]
    parameters = {"namespace": context.namespace} | space_of(context, batch.vectors)
    if decision.released:
        await context.fetch(release_keys, parameters | {"ids": decision.released})
    fielded = bool(batch.text_vectors)
    await context.fetch(update_rows, parameters | {"rows": f"[{','.join(rows)}]"}, fielded)


def _json_row(context: Context, batch: Batch, keys: Mapping[int, bytes], position: int, now: datetime) -> str:
    assert batch.counts is not None
    item = batch.whole[position]
    record = item.record
    expires_at = expiry(context, item, now)
    key = keys.get(position)
    vectors = batch.vectors
    values: dict[str, Any] = {
        "position": position,
        "status": record.status.value,
        "created_at": record.created_at.isoformat() if item.dated else None,
        "embedding": None if vectors is None else vectors[position].tolist(),
        "fields": [
            {"field": one.name, "digest": one.digest.hex(), "embedding": one.vector.tolist()}
            for one in batch.text_vectors.get(position, ())
        ],
        "counts": batch.counts[position].tolist(),
        "id": record.id,
        "content": record.content,
        "content_key": None if key is None else key.hex(),
        "memory_type": record.memory_type.value,
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


#: A position, the id of the memory there, and a relation of it, its target given or the holder of the target's content.
_Edge = tuple[int, str, MemoryRelation]


def _edges(batch: Batch, decision: Decision) -> list[_Edge]:
    """Return the relations of the memories to be written; their targets may be anywhere in the batch."""
    written = sorted({*decision.new, *decision.updates} & batch.whole.keys())
    edges: list[_Edge] = []
    failures: list[tuple[int, str]] = []
    for position in written:
        record = batch.whole[position].record
        for relation in record.relations:
            holder = decision.holders.get(relation.target_id)
            if holder == record.id:
                reason = f"relations: {relation.target_id!r} has the same deduped content as this memory"
                failures.append((position, reason))
            else:
                led = relation if holder is None else replace(relation, target_id=holder)
                edges.append((position, record.id, led))
    if failures:
        raise BatchRefusedError("relations lead from a memory to itself", failures)
    return edges


async def _refuse_missing(context: Context, batch: Batch, decision: Decision, edges: Sequence[_Edge]) -> None:
    """Refuse relations to what does not exist, and keep what does from being deleted."""
    from .._sql.bulk import lock_targets
    from .._sql.transfer import find_memories_by_id

    new = {batch.id_of(position) for position in decision.new}
    older = {relation.target_id for _, _, relation in edges} - new
    parameters = {"namespace": context.namespace, "ids": list(older)}
    # A principal may lock only what it may write.
    look = lock_targets if context.principal is None else find_memories_by_id
    missing = older - {row["id"] for row in await context.fetch(look, parameters)} if older else older
    failures = [
        (position, f"relations: no memory {relation.target_id!r} to relate to")
        for position, _, relation in edges
        if relation.target_id in missing
    ]
    if failures:
        raise BatchRefusedError("targets of relations are missing", failures)


async def _relate(context: Context, edges: Sequence[_Edge]) -> None:
    from .._sql.bulk import insert_relations

    unique = {(source, relation_key(relation)): (source, relation) for _, source, relation in edges}
    text = ",".join(encode_relation(relation, source) for source, relation in unique.values())
    await context.fetch(insert_relations, {"namespace": context.namespace, "relations": f"[{text}]"})
