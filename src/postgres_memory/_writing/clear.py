"""`clear`: every memory of the namespace, whatever its status, and nothing else."""

from __future__ import annotations

from .._context import Context


async def clear(context: Context) -> None:
    """Delete the namespace's memories; what belongs to them goes by cascade."""
    from .._sql.storing import clear_memories

    # What a principal leaves may hold the known words, which it knows nothing of.
    await context.fetch(clear_memories, {"namespace": context.namespace}, context.principal is None)
