"""`history`: all versions of a memory."""

from __future__ import annotations

from .._context import Context
from .._validation import check_id
from ..errors import NotFoundError
from ..records import MemoryRecord


async def history(context: Context, id: str) -> list[MemoryRecord]:
    """Return the versions in the order in which they were stored, or raise NotFoundError."""
    from .._sql.lifecycle import get_history
    from .._sql.records import record_from_row

    check_id(id)
    rows = await context.fetch(get_history, {"namespace": context.namespace, "id": id})
    if not rows:
        raise NotFoundError(context.namespace, (id,))
    return [record_from_row(row) for row in rows]
