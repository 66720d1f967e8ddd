"""`purge_expired`: delete what has expired, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._context import Context
from .._driver_errors import after_writing
from .._tokens import Written
from .._validation import check_positive
from ..errors import UsageError

if TYPE_CHECKING:
    from .._sql.compile import StatementBuilder


@dataclass(frozen=True, slots=True)
class Purged:
    """How many memories and how many idempotency keys were deleted."""

    memories: int = 0
    idempotency_keys: int = 0


async def purge_expired(
    context: Context, *, batch_size: int, progress: Callable[[Purged], None] | None
) -> Purged:
    """Delete batch after batch until one finds nothing more that is expired and free."""
    from .._sql.lifecycle import purge_idempotency_keys, purge_memories
    from .._sql.write_tokens import purge_tokens

    check_positive(batch_size, "batch_size")
    _refuse_transaction(context)
    report = progress or (lambda _: None)
    memories = keys = 0
    more = True
    while more:
        with after_writing(bool(memories)):
            deleted, more = await _batch(context, purge_memories, batch_size)
        memories += deleted
        report(Purged(memories, keys))
    more = True
    while more:
        with after_writing(bool(memories or keys)):
            deleted, more = await _batch(context, purge_idempotency_keys, batch_size)
        keys += deleted
        report(Purged(memories, keys))
    with after_writing(bool(memories or keys)):
        while (await _batch(context, purge_tokens, batch_size))[1]:
            pass
    return Purged(memories, keys)


async def _batch(context: Context, builder: StatementBuilder, size: int) -> tuple[int, bool]:
    """Delete one batch. Return how many it deleted, and whether there may be more."""
    rows = await context.once(builder, {"namespace": context.namespace, "limit": size})
    count: int = rows.changed if isinstance(rows, Written) else rows[0]["count"]
    return count, count == size


def _refuse_transaction(context: Context) -> None:
    if context.connection is not None and context.connection.is_in_transaction():
        raise UsageError(
            "purge_expired() deletes each batch in a transaction of its own, so that nothing stays locked for long; "
            "call it outside of a transaction"
        )
