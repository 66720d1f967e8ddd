"""Reading records by id, for the verbs that need it: a part, not a verb; it counts as no access."""

from __future__ import annotations

from collections.abc import Iterable

from .._context import Context, after_writing
from .._validation import check_id
from ..errors import InvalidTypeError, NotFoundError
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
