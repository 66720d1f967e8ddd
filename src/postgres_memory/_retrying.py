"""Trying again: which errors pass, and how long one waits for that."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ._telemetry import retried
from .errors import DatabaseError, DatabaseTimeoutError, DatabaseUnavailableError, OutcomeUnknownError

if TYPE_CHECKING:
    import tenacity

ResultT = TypeVar("ResultT")

_logger = logging.getLogger(__name__)

#: The server ended a transaction so that another could go on (a deadlock, a serialization failure), or takes no writes
#: any more, since another server took over. Nothing of it was written, and the same once more may succeed.
_PASSING = {"40P01", "40001", "25006"}
#: Pauses are by chance, or those that met would meet again: from nothing to a bound that doubles from the first to the
#: longest, in seconds. After a failover, the longest is what a caller may wait in vain.
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25


def passes(error: BaseException) -> bool:
    """Say whether ``error`` may be gone when the same is tried again."""
    if isinstance(error, DatabaseUnavailableError):
        return True
    return isinstance(error, DatabaseError) and error.sqlstate in _PASSING


def passes_or_is_late(error: BaseException) -> bool:
    """Say whether ``error`` may be gone; also of no answer in time, where what asks must know."""
    return passes(error) or (isinstance(error, DatabaseTimeoutError) and not error.nothing_written)


async def persistent(
    run: Callable[[], Awaitable[ResultT]],
    seconds: float,
    again_after: Callable[[BaseException], bool] = passes,
) -> ResultT:
    """Return what ``run`` returns; what passes is tried again for at most ``seconds``, then raised."""
    try:
        return await run()
    except DatabaseError as error:
        if not again_after(error) or not seconds:
            raise
        failed = [error]
    import tenacity  # what succeeds at once does without it

    async def again() -> ResultT:
        if failed:  # a pause comes first: what failed a moment ago would fail again
            raise failed.pop()
        return await run()

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(again_after),
        stop=tenacity.stop_before_delay(seconds),
        wait=tenacity.wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
        before_sleep=_tell,
        reraise=True,
    )
    return await retrying(again)


def _tell(state: tenacity.RetryCallState) -> None:
    error = None if state.outcome is None else state.outcome.exception()
    retried(error)
    _logger.info("tried again, attempt %d: %s", state.attempt_number, error)


def unknown(error: DatabaseError) -> OutcomeUnknownError:
    """Return the error for a write whose answer was lost."""
    return OutcomeUnknownError(
        f"the connection was lost while writing, and whether that was written is not known: {error}",
        sqlstate=error.sqlstate,
    )
