"""`prune_changes`: take away the events that are old, from the first on, in batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .._context import Context
from .._driver_errors import after_writing
from .._validation import check_duration, check_positive
from ..errors import UsageError
from .marks import Marks


async def prune_changes(
    context: Context,
    older_than: timedelta,
    *,
    batch_size: int,
    dry_run: bool,
    progress: Callable[[int], object] | None,
) -> int:
    """Delete events that are decided alone: one that is committed later would be behind where the feed begins."""
    from .._sql.reading_changes import count_old_events, prune_events, read_changes

    context.refuse_principal("prune_changes()")
    if context.connection is not None:
        raise UsageError("prune_changes() commits each batch; call it outside of a transaction")
    limit = check_positive(batch_size, "batch_size")
    parameters: dict[str, Any] = {
        "namespace": context.namespace,
        "older_than": check_duration(older_than, "older_than").total_seconds(),
    }
    marks, is_decided = Marks(), False
    while not is_decided:
        reading = parameters | marks.parameters | {"after": None, "limit": 0}
        is_decided = await marks.seen((await context.fetch(read_changes, reading))[0])
    parameters["safe"] = marks.safe
    if dry_run:
        ((old,),) = await context.fetch(count_old_events, parameters)
        return int(old)
    total, pruned = 0, limit
    while pruned:
        with after_writing(bool(total)):
            ((pruned,),) = await context.fetch(prune_events, parameters | {"limit": limit})
        total += pruned
        if pruned and progress is not None:
            progress(total)
    return total
