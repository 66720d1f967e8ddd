"""`add`: one whole memory with its relations, in one statement; conflicts are resolved as the caller asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from .._context import Context
from .._driver_errors import after_writing
from .._json import encode_metadata
from .._recall.reading import read_records, read_written
from .._relation_json import encode_relations
from .._sql.policies import SYSTEM
from .._tokens import Written
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
from ..ids import new_id
from ..records import MemoryRecord, MemoryRelation, MemoryRelationType, MemoryType
from .deduping import ATTEMPTS, changing, make_way, unless_held
from .embedding import embedded
from .payload import payload_digest
from .thread import thread_of

if TYPE_CHECKING:
    from asyncpg import Record

    from .._sql.adding import Beside

OnConflict = Literal["error", "ignore", "update"]
Dedupe = Literal["content"]

_FOREIGN_KEY_VIOLATION = "23503"
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
    """A memory to add, checked.

    ``dated`` and ``named`` say whether the caller gave time and id, ``whole`` whether as parts of a whole record.
    """

    record: MemoryRecord
    dated: bool
    named: bool
    on_conflict: OnConflict
    dedupe: Dedupe | None
    whole: bool = False

    @property
    def shows_itself(self) -> bool:
        """Whether its id, which nobody else makes, tells by being there that it was added, and nothing else tells."""
        return not (self.named or self.dedupe or self.record.relations or self.on_conflict == "update")


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
    record = _owned(context, _in_its_thread(context, _record(context, content, fields, verb)))
    if record.supersedes is not None:
        raise InvalidValueError("supersedes", "is set by supersede(), which also marks the other memory")
    relations = _derived(derived_from)
    if relations:
        record = replace(record, relations=record.relations + relations)
    for relation in record.relations:
        if relation.target_id == record.id:
            raise InvalidValueError("relations", "must not lead from a memory to itself")
    whole = isinstance(content, MemoryRecord)
    dated, named = whole or "created_at" in fields, "id" in fields or (whole and context.principal is None)
    return Addition(record, dated, named, on_conflict, dedupe, whole)


def _owned(context: Context, record: MemoryRecord) -> MemoryRecord:
    """Return a principal's memory as its own, under an id of our making: its own may meet others."""
    if context.principal is None:
        return record
    given = record.permissions
    return replace(
        record, id=new_id(), permissions=replace(given, owner=owner_of_principals(context, given.owner))
    )


def owner_of_principals(context: Context, given: str) -> str:
    """Return the owner of what a principal writes, where ``given`` names it or nobody."""
    if given not in (SYSTEM, context.owner):
        raise InvalidValueError(
            "permissions.owner", "of what a principal adds is the principal; leave it out"
        )
    return context.owner


def _record(context: Context, content: str | MemoryRecord, fields: dict[str, Any], verb: str) -> MemoryRecord:
    if context.principal is not None and "id" in fields:
        raise InvalidValueError("id", "is not for a principal to choose; leave it out")
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


async def once(
    context: Context,
    addition: Addition,
    key: str | None,
    write: Callable[[Context], Awaitable[MemoryRecord]],
    *,
    replaces: str | None = None,
) -> MemoryRecord:
    """Return what ``write`` stores, or with an idempotency key what an earlier call with it stored."""
    if key is None:
        return await write(context)
    check_key(key, "idempotency_key")
    claim = _claim(context, addition, key, replaces)
    return await context.retried(lambda inside: _once_under_key(inside, claim, write))


def _claim(context: Context, addition: Addition, key: str, replaces: str | None) -> dict[str, Any]:
    record = addition.record
    return {
        "namespace": context.namespace,
        "owner": record.permissions.owner,
        "key": key,
        "memory_id": record.id,
        # A record has an id and a time of its own making, or of its caller's: one cannot tell, so that neither counts.
        "payload": payload_digest(
            record,
            with_id=addition.named and not addition.whole,
            with_created_at=addition.dated and not addition.whole,
            replaces=replaces,
        ),
        "ttl_seconds": context.idempotency_ttl.total_seconds(),
    }


async def _once_under_key(
    context: Context, claim: dict[str, Any], write: Callable[[Context], Awaitable[MemoryRecord]]
) -> MemoryRecord:
    """Claim the key, waiting for another call that is at it, then write in the same transaction."""
    from .._sql.idempotency import claim_key, get_key, point_key

    if await context.fetch(claim_key, claim):
        stored = await write(context)
        if stored.id != claim["memory_id"]:
            await context.fetch(point_key, claim | {"memory_id": stored.id})
        return stored
    (row,) = await context.fetch(get_key, claim)
    first = row["memory_id"]
    if row["payload"] != claim["payload"]:
        raise IdempotencyConflictError(namespace=context.namespace, id=first, key=claim["key"])
    (record,) = await read_records(context, [first])
    if record is None:
        detail = ": it was stored under this idempotency key and is deleted"
        raise NotFoundError(context.namespace, (first,), detail)
    return record


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record with its embedding, and the parameters of the statement that inserts it."""

    record: MemoryRecord
    parameters: dict[str, Any]

    @property
    def beside(self) -> Beside:
        """What is written beside the memory and its hash embedding."""
        from .._sql.adding import Beside

        given = (self.parameters[name] is not None for name in ("vector", "fields"))
        return Beside(bool(self.record.relations), *given)

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
    """Embed what is to be added, before a connection is taken for it."""
    record = addition.record
    counts = await counts_of(record.content)
    embedding = tuple(normalize(counts))
    if record.embedding is not None and record.embedding != embedding:
        raise InvalidValueError("embedding", "is not the hash embedding of the content; leave it out")
    parameters = parameters_of(context, addition) | {"counts": str(counts)}
    parameters |= await embedded(context, record.content, record.metadata)
    return Prepared(replace(record, embedding=embedding), parameters)


async def add(context: Context, addition: Addition, prepared: Prepared) -> MemoryRecord:
    """Insert, or return or update what is already there. Returns the record as it is stored."""
    record = addition.record
    for _ in range(ATTEMPTS):
        row = await _insert(context, addition, prepared)
        if isinstance(row, Written):
            return await read_written(context, record.id)
        if row is not None and row["version"] == 1:
            return prepared.as_stored(row)
        with after_writing(row is not None and row["version"] is not None):
            existing = await _in_the_way(context, addition, prepared.parameters, held=row is None)
        if existing is not None:
            return existing
    raise changing(context, record.id)


def parameters_of(context: Context, addition: Addition) -> dict[str, Any]:
    """Return the parameters that say a memory, but for what is made of its content."""
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
        "relations": encode_relations(record.relations),
    }


async def _insert(context: Context, addition: Addition, prepared: Prepared) -> Record | Written | None:
    """Run the statement. The row's version is 1 for a new memory, higher for an updated one, null for a conflict.

    None is returned where an update by id, or what would be new without one, meets a content that another one holds.
    """
    namespace, id_ = context.namespace, addition.record.id
    row: Record | Written | None
    try:
        if context.principal is not None:
            given, beside = prepared.parameters, prepared.beside
            row = await context.retried(lambda inside: insert_apart(inside, given, beside))
        elif addition.on_conflict == "update":
            row = await unless_held(context, lambda at: _insert_whole(at, addition, prepared))
        else:
            row = await _insert_whole(context, addition, prepared)
    except DatabaseError as error:
        if error.sqlstate != _FOREIGN_KEY_VIOLATION:
            raise
        raise ConflictError("a related memory was deleted meanwhile", namespace=namespace, id=id_) from error
    if isinstance(row, Written):
        return row
    if row is not None and row["missing"]:
        raise NotFoundError(
            namespace, tuple(sorted(set(row["missing"]))), ", and a relation needs both its ends"
        )
    return row


async def _insert_whole(context: Context, addition: Addition, prepared: Prepared) -> Record | Written:
    from .._sql.adding import add_memory

    on_conflict = "update" if addition.on_conflict == "update" else "nothing"
    shape = (on_conflict, prepared.beside, not addition.shows_itself)
    if addition.shows_itself:
        return (await context.fetch(add_memory, prepared.parameters, *shape, repeatable=True))[0]
    rows = await context.once(add_memory, prepared.parameters, *shape)
    return rows if isinstance(rows, Written) else rows[0]


async def insert_apart(inside: Context, parameters: dict[str, Any], beside: Beside) -> Record:
    """Insert as a principal: two statements, in a transaction, which leaves the token."""
    from .._sql.adding import add_beside, add_memory

    # The server keeps the plan of a statement that does not look for a thread; of one that might, under policies, it
    # thinks too badly, and plans it anew each time.
    in_thread = parameters["thread_id"] is not None
    (row,) = await inside.fetch(add_memory, parameters, "alone", beside, False, in_thread)
    if row["version"] is not None:
        await inside.fetch(add_beside, parameters, beside)
    return row


async def _in_the_way(
    context: Context, addition: Addition, parameters: dict[str, Any], *, held: bool
) -> MemoryRecord | None:
    """Return the memory that was updated or that the caller wants instead; None if it is gone again.

    First by id: updated, ignored or an error, as ``on_conflict`` says; an update to a content that another memory holds
    (``held``) is an error too. Then, for a deduped content, the one there is.
    """
    from .._sql.keys import release_expired_keys
    from .._sql.records import get_record_by_content_key, get_records, record_from_row

    id_ = addition.record.id
    rows = await context.fetch(get_records, {"namespace": context.namespace, "ids": [id_]})
    if rows and addition.shows_itself:
        return record_from_row(rows[0])  # added by this very call, whose first answer was lost
    if rows and addition.on_conflict == "error":
        raise ConflictError(f"there is a memory {id_!r} already", namespace=context.namespace, id=id_)
    if rows and held:
        await make_way(context, id_, owner=parameters["owner"], content=parameters["content"])
        return None
    if not rows and addition.dedupe is not None:
        if await context.fetch(release_expired_keys, {"namespace": context.namespace}):
            return None
        rows = await context.fetch(get_record_by_content_key, parameters)
    return record_from_row(rows[0]) if rows else None
