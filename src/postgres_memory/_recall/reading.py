"""Reading records by id, for the verbs that need it: a part, not a verb; it counts as no access."""

from __future__ import annotations

from collections.abc import Iterable

from .._context import Context
from .._driver_errors import after_writing
from .._validation import check_id
from ..errors import InvalidTypeError, NotFoundError, NotPermittedError, PostgresMemoryError
from ..records import MemoryRecord


async def read_record(context: Context, id: str) -> MemoryRecord:
    """Return the record of one memory, whatever its status, or raise NotFoundError."""
    (record,) = await read_records(context, [check_id(id)])
    if record is None:
        raise NotFoundError(context.namespace, (id,))
    return record


async def read_written(context: Context, id: str) -> MemoryRecord:
    """Return the record of a memory that was written a moment ago; if that fails, the error says that it was."""
    with after_writing():
        return await read_record(context, id)


async def not_there(context: Context, id: str, detail: str = "") -> PostgresMemoryError:
    """Return the error for a memory that could not be written: not there, or there to be read only."""
    if context.principal is not None and await is_readable(context, id):
        return NotPermittedError(context.principal.name, id, "may read it and not write it")
    return NotFoundError(context.namespace, (id,), detail)


async def refuse_unwritable(context: Context, id: str) -> None:
    """Raise NotPermittedError where a principal may read a memory and not write it."""
    from .._sql.records import is_writable

    if context.principal is None or not await is_readable(context, id):
        return
    ((writable,),) = await context.fetch(is_writable, {"namespace": context.namespace, "id": id})
    if not writable:
        raise await not_there(context, id)


async def is_readable(context: Context, id: str) -> bool:
    """Say whether a memory is there, for who is asking."""
    from .._sql.transfer import find_memories_by_id

    return bool(
        await context.fetch(find_memories_by_id, {"namespace": context.namespace, "ids": [check_id(id)]})
    )


async def read_again(context: Context, ids: list[str]) -> dict[str, MemoryRecord]:
    """Return what a principal sees of candidates: by id, without what it does not see."""
    records = await read_records(context, ids)
    return {record.id: record for record in records if record is not None}


async def read_records(context: Context, ids: Iterable[str]) -> list[MemoryRecord | None]:
    """Return the records in the order asked, None for each that is missing."""
    from .._sql.records import get_records, record_from_row

    if isinstance(ids, str):
        raise InvalidTypeError("ids", "must be an iterable of ids, not one str")
    asked = [check_id(id_, f"ids[{position}]") for position, id_ in enumerate(ids)]
    if not asked:
        return []
    rows = await context.fetch(get_records, {"namespace": context.namespace, "ids": list(set(asked))})
    found = {row["id"]: record_from_row(row) for row in rows}
    return [found.get(id_) for id_ in asked]
