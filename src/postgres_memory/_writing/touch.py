"""Writing gathered touches: one statement."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from .._context import Context

if TYPE_CHECKING:
    from .._access import Touches


async def write_touches(context: Context, touches: Touches) -> list[str]:
    """Write ``touches`` and return the ids that must be tried again, because others hold their memories.

    Touches of memories that are not there, or not yet committed, are dropped.
    """
    from .._sql.access import touch_memories

    now = monotonic()
    ids = sorted(touches)
    rows = await context.fetch(
        touch_memories,
        {
            "namespace": context.namespace,
            "ids": ids,
            "counts": [touches[id_].times for id_ in ids],
            "ages": [now - touches[id_].last for id_ in ids],
        },
    )
    return [row["id"] for row in rows]
