"""`delete`: one memory with everything that hangs on it."""

from __future__ import annotations

from .._context import Context
from .._recall.reading import refuse_unwritable
from .._tokens import Written
from .._validation import check_id


async def delete(context: Context, id: str) -> bool:
    """Delete, and say whether this call was the one that did."""
    from .._sql.changing import delete_memory

    check_id(id)
    rows = await context.once(delete_memory, {"namespace": context.namespace, "id": id})
    deleted = isinstance(rows, Written) or bool(rows)
    if not deleted:
        await refuse_unwritable(context, id)
    return deleted
