"""`supersede`: a new memory in place of an active one, in one statement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .._context import Context
from .._recall.reading import not_there, read_written
from .._tokens import Written
from .._validation import check_id
from ..errors import ConflictError, DatabaseError, InvalidValueError, NotFoundError
from ..records import MemoryRecord, MemoryStatus

if TYPE_CHECKING:
    from asyncpg import Record

    from .adding import Prepared

_FOREIGN_KEY_VIOLATION = "23503"


def check_replacement(old_id: str, record: MemoryRecord) -> None:
    """Refuse a record that cannot replace the memory ``old_id``."""
    check_id(old_id, "old_id")
    if record.id == old_id:
        raise InvalidValueError("id", "must not be the id of the memory that is replaced")
    if record.status is not MemoryStatus.ACTIVE:
        raise InvalidValueError("status", "of a memory that replaces another must be active")


async def supersede(context: Context, old_id: str, new: Prepared) -> MemoryRecord:
    """Insert ``new`` and mark the old memory, or raise what stands in the way."""
    from .._sql.adding import add_beside
    from .._sql.lifecycle import supersede_memory

    namespace, id_ = context.namespace, new.record.id
    parameters = new.parameters | {"old_id": old_id}

    async def write_apart(inside: Context) -> list[Record] | Written:
        rows = await inside.once(supersede_memory, parameters, new.beside, True)
        if not isinstance(rows, Written) and rows[0]["version"] is not None:
            await inside.fetch(add_beside, parameters, new.beside)
        return rows

    try:
        if context.principal is not None:
            rows = await context.retried(write_apart)
        else:
            rows = await context.once(supersede_memory, parameters, new.beside)
    except DatabaseError as error:
        if error.sqlstate != _FOREIGN_KEY_VIOLATION:
            raise
        raise ConflictError("a related memory was deleted meanwhile", namespace=namespace, id=id_) from error
    if isinstance(rows, Written):
        return await read_written(context, id_)
    (row,) = rows
    if row["found"] is None:
        raise await not_there(context, old_id)
    _refuse_inactive(namespace, old_id, MemoryStatus(row["found"]))
    if row["missing"]:
        raise NotFoundError(
            namespace, tuple(sorted(set(row["missing"]))), ", and a relation needs both its ends"
        )
    if row["version"] is None:
        raise ConflictError(f"there is a memory {id_!r} already", namespace=namespace, id=id_)
    return replace(new.as_stored(row), supersedes=old_id)


def _refuse_inactive(namespace: str, old_id: str, found: MemoryStatus) -> None:
    if found is MemoryStatus.SUPERSEDED:
        raise ConflictError(
            f"memory {old_id!r} was superseded already; its history() shows by what",
            namespace=namespace,
            id=old_id,
        )
    if found is MemoryStatus.ARCHIVED:
        raise ConflictError(
            f"memory {old_id!r} is archived, and only an active one can be superseded; restore() it first",
            namespace=namespace,
            id=old_id,
        )
