"""`delete`: one memory with everything that hangs on it."""

from __future__ import annotations

from .._context import Context, Written
from .._validation import check_id


async def delete(context: Context, id: str) -> bool:
    """Delete, and say whether this call was the one that did."""
    from .._sql.changing import delete_memory

    check_id(id)
    rows = await context.once(delete_memory, {"namespace": context.namespace, "id": id})
    return isinstance(rows, Written) or bool(rows)
