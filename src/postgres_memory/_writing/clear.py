"""`clear`: every memory of the namespace, whatever its status, and nothing else."""

from __future__ import annotations

from .._context import Context


async def clear(context: Context) -> None:
    """Delete the namespace's memories; what belongs to them goes by cascade."""
    from .._sql.storing import clear_memories

    await context.fetch(clear_memories, {"namespace": context.namespace})
