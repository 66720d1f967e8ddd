"""`archive`: put a memory away without deleting it."""

from __future__ import annotations

from .._context import Context
from .._recall.reading import not_there, read_record, read_written
from .._tokens import Written
from .._validation import check_id
from ..records import MemoryRecord, MemoryStatus


async def archive(context: Context, id: str) -> MemoryRecord:
    """Archive, whatever the status before, and return the record after; one that is archived stays as it is."""
    from .._sql.lifecycle import archive_memory
    from .._sql.records import record_from_row

    check_id(id)
    rows = await context.once(archive_memory, {"namespace": context.namespace, "id": id})
    if isinstance(rows, Written):
        return await read_written(context, id)
    if rows:
        return record_from_row(rows[0])
    record = await read_record(context, id)
    if context.principal is not None and record.status is not MemoryStatus.ARCHIVED:
        raise await not_there(context, id)
    return record
