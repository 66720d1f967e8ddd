"""`add`: one whole memory with its relations, in one statement; conflicts are resolved as the caller asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from .._context import Context
from .._json import encode_metadata
from .._recall.reading import read_records
from .._relation_json import encode_relations
from .._validation import check_content, check_id, check_key
from ..embedding.counting import counts_of
from ..embedding.hashing import normalize
from ..errors import (
    ConflictError,
    DatabaseError,
    IdempotencyConflictError,
    InvalidTypeError,
    InvalidValueError,
    NotFoundError,
)
from ..records import MemoryRecord, MemoryRelation, MemoryRelationType, MemoryType
from .payload import payload_digest
from .thread import thread_of

if TYPE_CHECKING:
    from asyncpg import Record

OnConflict = Literal["error", "ignore", "update"]
Dedupe = Literal["content"]

_UNIQUE_VIOLATION = "23505"
_FOREIGN_KEY_VIOLATION = "23503"
#: What was in the way may be deleted before it is read, and another may take its place.
_ATTEMPTS = 5
_FIELDS = {
    "id",
    "thread_id",
    "session_id",
    "memory_type",
    "tags",
    "importance",
    "confidence",
    "metadata",
    "relations",
    "permissions",
    "expires_at",
    "created_at",
}


@dataclass(frozen=True, slots=True)
class Addition:
    """A memory to add, checked. ``dated`` and ``named`` say whether the caller gave time and id."""

    record: MemoryRecord
    dated: bool
    named: bool
    on_conflict: OnConflict
    dedupe: Dedupe | None


def addition_of(
    context: Context,
    content: str | MemoryRecord,
    fields: dict[str, Any],
    *,
    derived_from: Iterable[str] = (),
    on_conflict: OnConflict = "error",
    dedupe: Dedupe | None = None,
    verb: str = "add",
) -> Addition:
    """Check what the caller gave to ``verb`` and return it as one thing to add."""
    if on_conflict not in get_args(OnConflict):
        raise InvalidValueError("on_conflict", "must be 'error', 'ignore' or 'update'")
    if dedupe not in (None, "content"):
        raise InvalidValueError("dedupe", "must be 'content' or None")
    record = _in_its_thread(context, _record(context, content, fields, verb))
    if record.supersedes is not None:
        raise InvalidValueError("supersedes", "is set by supersede(), which also marks the other memory")
    relations = _derived(derived_from)
    if relations:
        record = replace(record, relations=record.relations + relations)
    for relation in record.relations:
        if relation.target_id == record.id:
            raise InvalidValueError("relations", "must not lead from a memory to itself")
    dated = isinstance(content, MemoryRecord) or "created_at" in fields
    return Addition(record, dated, isinstance(content, MemoryRecord) or "id" in fields, on_conflict, dedupe)


def _record(context: Context, content: str | MemoryRecord, fields: dict[str, Any], verb: str) -> MemoryRecord:
    if not isinstance(content, MemoryRecord):
        check_content(content, max_bytes=context.limits.content_bytes)
        unknown = fields.keys() - _FIELDS
        if unknown:
            raise TypeError(f"{verb}() got an unexpected keyword argument {min(unknown)!r}")
        return MemoryRecord(content=content, namespace=context.namespace, **fields)
    if fields:
        raise TypeError(f"{verb}() takes a record or fields such as {min(fields)!r}, not both")
    check_content(content.content, max_bytes=context.limits.content_bytes)
    if content.namespace not in ("default", context.namespace):
        raise InvalidValueError("namespace", "of the record is not the one of this object")
    return replace(content, namespace=context.namespace)


def _in_its_thread(context: Context, record: MemoryRecord) -> MemoryRecord:
    if record.thread_id is not None:
        return record
    thread = thread_of(context, record.metadata)
    return record if thread is None else replace(record, thread_id=thread)


def _derived(ids: Iterable[str]) -> tuple[MemoryRelation, ...]:
    if isinstance(ids, str):
        raise InvalidTypeError("derived_from", "must be an iterable of ids, not one str")
    return tuple(
        MemoryRelation(check_id(id_, "derived_from"), MemoryRelationType.EXTENDS, label="derived")
        for id_ in ids
    )


async def add_once(context: Context, addition: Addition, key: str | None) -> MemoryRecord:
    """Add, or with an idempotency key return what an earlier call with it added."""
    if key is None:
        return await add(context, addition)
    check_key(key, "idempotency_key")
    return await context.retried(lambda inside: _add_under_key(inside, addition, key))


async def _add_under_key(context: Context, addition: Addition, key: str) -> MemoryRecord:
    """Claim the key, waiting for another call that is at it, then add in the same transaction."""
    from .._sql.idempotency import claim_key, get_key, point_key

    record = addition.record
    payload = payload_digest(record, with_id=addition.named, with_created_at=addition.dated)
    parameters = {
        "namespace": context.namespace,
        "owner": record.permissions.owner,
        "key": key,
        "memory_id": record.id,
        "payload": payload,
        "ttl_seconds": context.idempotency_ttl.total_seconds(),
    }
    if await context.fetch(claim_key, parameters):
        stored = await add(context, addition)
        if stored.id != record.id:
            await context.fetch(point_key, parameters | {"memory_id": stored.id})
        return stored
    (row,) = await context.fetch(get_key, parameters)
    if row["payload"] != payload:
        raise IdempotencyConflictError(namespace=context.namespace, id=row["memory_id"], key=key)
    (first,) = await read_records(context, [row["memory_id"]])
    if first is None:
        detail = ": it was stored under this idempotency key and is deleted"
        raise NotFoundError(context.namespace, (row["memory_id"],), detail)
    return first


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record with its embedding, and the parameters of the statement that inserts it."""

    record: MemoryRecord
    parameters: dict[str, Any]

    def as_stored(self, row: Record) -> MemoryRecord:
        """Return the record with what the server set."""
        return replace(
            self.record,
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            expires_at=row["expires_at"],
            last_accessed=None,
            access_count=0,
            version=1,
        )


async def prepare(context: Context, addition: Addition) -> Prepared:
    """Embed what is to be added."""
    record = addition.record
    counts = await counts_of(record.content)
    embedding = tuple(normalize(counts))
    if record.embedding is not None and record.embedding != embedding:
        raise InvalidValueError("embedding", "is not the hash embedding of the content; leave it out")
    return Prepared(replace(record, embedding=embedding), _parameters(context, addition, counts))


async def add(context: Context, addition: Addition) -> MemoryRecord:
    """Insert, or return or update what is already there. Returns the record as it is stored."""
    record = addition.record
    prepared = await prepare(context, addition)
    for _ in range(_ATTEMPTS):
        row = await _insert(context, addition, prepared.parameters)
        if row["version"] == 1:
            return prepared.as_stored(row)
        existing = await _in_the_way(context, addition, prepared.parameters)
        if existing is not None:
            return existing
    raise ConflictError("what is in the way keeps changing", namespace=context.namespace, id=record.id)


def _parameters(context: Context, addition: Addition, counts: list[int]) -> dict[str, Any]:
    record = addition.record
    ttl = context.session_ttl if record.memory_type is MemoryType.SESSION else None
    return {
        "namespace": context.namespace,
        "id": record.id,
        "content": record.content,
        "metadata": encode_metadata(record.metadata),
        "memory_type": record.memory_type.value,
        "status": record.status.value,
        "importance": record.importance,
        "confidence": record.confidence,
        "tags": record.tags,
        "thread_id": record.thread_id,
        "session_id": record.session_id,
        "owner": record.permissions.owner,
        "readers": record.permissions.readers,
        "writers": record.permissions.writers,
        "expires_at": record.expires_at,
        "ttl_seconds": None if ttl is None else ttl.total_seconds(),
        "created_at": record.created_at if addition.dated else None,
        "dedupe": addition.dedupe == "content",
        "counts": counts,
        "relations": encode_relations(record.relations),
    }


async def _insert(context: Context, addition: Addition, parameters: dict[str, Any]) -> Record:
    """Run the statement. The row's version is 1 for a new memory, higher for an updated one, null for a conflict."""
    from .._sql.adding import add_memory

    namespace, id_ = context.namespace, addition.record.id
    on_conflict = "update" if addition.on_conflict == "update" else "nothing"
    try:
        (row,) = await context.fetch(add_memory, parameters, on_conflict, bool(addition.record.relations))
    except DatabaseError as error:
        if error.sqlstate == _UNIQUE_VIOLATION:
            text = "another deduped memory has the same content"
        elif error.sqlstate == _FOREIGN_KEY_VIOLATION:
            text = "a related memory was deleted meanwhile"
        else:
            raise
        raise ConflictError(text, namespace=namespace, id=id_) from error
    if row["missing"]:
        raise NotFoundError(namespace, tuple(sorted(set(row["missing"]))), ", so nothing can relate to it")
    return row


async def _in_the_way(
    context: Context, addition: Addition, parameters: dict[str, Any]
) -> MemoryRecord | None:
    """Return the memory that was updated or that the caller wants instead; None if it is gone again.

    First by id: updated, ignored or an error, as ``on_conflict`` says. Then, for a deduped content, the one there is.
    """
    from .._sql.keys import release_expired_keys
    from .._sql.records import get_record_by_content_key, get_records, record_from_row

    id_ = addition.record.id
    rows = await context.fetch(get_records, {"namespace": context.namespace, "ids": [id_]})
    if rows and addition.on_conflict == "error":
        raise ConflictError(f"there is a memory {id_!r} already", namespace=context.namespace, id=id_)
    if not rows and addition.dedupe is not None:
        if await context.fetch(release_expired_keys, {"namespace": context.namespace}):
            return None
        rows = await context.fetch(get_record_by_content_key, parameters)
    return record_from_row(rows[0]) if rows else None
