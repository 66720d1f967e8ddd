"""Verbs on single records: adding, reading, changing, deleting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Unpack

    from .._context import Context
    from .._pooling import Connection
    from .._writing.adding import Dedupe, OnConflict
    from .._writing.update import MetadataMode
    from ..records import MemoryPermissions, MemoryRecord, MemoryRelation, MemoryType


class RecordFields(TypedDict, total=False):
    """What the caller may say of a new memory beside its content; MemoryRecord documents each."""

    id: str
    thread_id: str | None
    session_id: str | None
    memory_type: MemoryType | str
    tags: Sequence[str]
    importance: float
    confidence: float
    metadata: dict[str, Any]
    relations: Sequence[MemoryRelation]
    permissions: MemoryPermissions
    expires_at: datetime | None
    created_at: datetime


class RecordChanges(TypedDict, total=False):
    """What `update` can change of a memory."""

    content: str
    memory_type: MemoryType | str
    tags: Sequence[str]
    importance: float
    confidence: float
    metadata: dict[str, Any]
    permissions: MemoryPermissions
    thread_id: str | None
    session_id: str | None
    expires_at: datetime | None


class RecordVerbs:
    """`add`, `get`, `get_many`, `update` and `delete`."""

    _context: Context

    async def add(
        self,
        content: str | MemoryRecord,
        *,
        derived_from: Iterable[str] = (),
        on_conflict: OnConflict = "error",
        dedupe: Dedupe | None = None,
        idempotency_key: str | None = None,
        connection: Connection | None = None,
        **fields: Unpack[RecordFields],
    ) -> MemoryRecord:
        """Store one memory, with its relations, and return it as it is stored.

        Give a content and any fields of a record, or a whole `MemoryRecord` and no fields. A record left at the
        namespace ``"default"`` is taken into this one; another namespace is an error. The database sets
        ``updated_at``, ``version`` and the access counters, and ``created_at`` unless it is given.
        ``derived_from`` names the memories that a synthetic one was made from: relations of type EXTENDS, labelled
        ``derived``; a synthetic one without is accepted, as not all that it was made from need be memories. A SESSION
        memory without ``expires_at`` gets one from the object's ``session_ttl``.

        What may be in the way, in this order:

        1. ``idempotency_key``: a call with a key that was used returns the memory that was stored then; the same key
           with another payload raises IdempotencyConflictError. A key is remembered for 24 hours (the object's
           ``idempotency_ttl``), also when its memory is deleted: then NotFoundError is raised. Of a whole record, id
           and ``created_at`` are no part of the payload, so that a retry may make the record again.
        2. The id: ``on_conflict`` says ``"error"`` (ConflictError), ``"ignore"`` (the memory that is there is returned)
           or ``"update"`` (it gets the new fields, defaults for those not given, and the given relations beside those
           it has; its status stays, which is the lifecycle's). An update to a content that another deduped memory holds
           is a ConflictError whose ``id`` names that one.
        3. ``dedupe="content"``: if there is no memory of this id, and an active, unexpired one of this owner's deduped
           memories has an equal content, that memory is returned as it is and nothing is stored.

        Raises InvalidTypeError or InvalidValueError for bad fields, NotFoundError for the target of a relation that is
        not there. Whatever it raises, nothing was written.
        """
        from .._writing.add import add_among_others
        from .._writing.adding import add, addition_of, once, prepare

        context = self._context.on(connection)
        addition = addition_of(
            context,
            content,
            dict(fields),
            derived_from=derived_from,
            on_conflict=on_conflict,
            dedupe=dedupe,
        )
        if idempotency_key is None and addition.shows_itself:
            return await add_among_others(context, addition)
        prepared = await prepare(context, addition)
        return await once(context, addition, idempotency_key, lambda inside: add(inside, addition, prepared))

    async def get(self, id: str, *, connection: Connection | None = None) -> MemoryRecord:
        """Return one memory by id, whatever its status, and also if it has expired. Raises NotFoundError."""
        from .._recall.get import get

        return await get(self._context.reading(connection), id)

    async def get_many(
        self, ids: Iterable[str], *, connection: Connection | None = None
    ) -> list[MemoryRecord | None]:
        """Return memories by id, in the order asked, with None in place of each that is missing.

        As with `get`, whatever their status, and also if they have expired.
        """
        from .._recall.get import get_many

        return await get_many(self._context.reading(connection), ids)

    async def update(
        self,
        id: str,
        *,
        expected_version: int | None = None,
        metadata_mode: MetadataMode | None = None,
        connection: Connection | None = None,
        **changes: Unpack[RecordChanges],
    ) -> MemoryRecord:
        """Change fields of one memory and return it as it is then; its version goes up by one.

        With ``expected_version`` it is changed only if it is at that version, else VersionConflictError tells both.
        A new content is embedded anew, and so is each embedded field of the metadata whose text changes. ``metadata``
        goes with ``metadata_mode``: ``"merge"`` adds its top-level keys to those there are, and what comes of it is
        held to the same limit, ``"replace"`` sets it as a whole.

        Raises NotFoundError, ConflictError if the memory is deduped and another deduped one, which the error names in
        ``id``, has the content it would have (also when an expired one is revived by its ``expires_at``), or
        InvalidTypeError or InvalidValueError. Whatever it raises, nothing was written.
        """
        from .._writing.update import update

        return await update(
            self._context.on(connection),
            id,
            dict(changes),
            expected_version=expected_version,
            metadata_mode=metadata_mode,
        )

    async def delete(self, id: str, *, connection: Connection | None = None) -> bool:
        """Delete one memory and its relations. Return True if this call deleted it, False if there was none."""
        from .._writing.delete import delete

        return await delete(self._context.on(connection), id)
