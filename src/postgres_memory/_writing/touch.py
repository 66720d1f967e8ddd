"""Writing gathered touches: one statement."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from .._context import Context
from ..errors import OutcomeUnknownError

if TYPE_CHECKING:
    from .._access import Touches

_logger = logging.getLogger(__name__)


async def write_touches(context: Context, touches: Touches) -> list[str]:
    """Write ``touches`` and return the ids that must be tried again, because others hold their memories.

    Touches of memories that are not there, or not yet committed, are dropped.
    """
    from .._sql.access import touch_memories

    now = monotonic()
    ids = sorted(touches)
    parameters = {
        "namespace": context.namespace,
        "ids": ids,
        "counts": [touches[id_].times for id_ in ids],
        "ages": [now - touches[id_].last for id_ in ids],
    }
    try:
        rows = await context.fetch(touch_memories, parameters)
    except OutcomeUnknownError as error:
        # Counted at most once: an access less is better than one that never was, and than a read that fails for it.
        _logger.warning("accesses to %d memories may not have been counted: %s", len(ids), error)
        return []
    return [row["id"] for row in rows]
