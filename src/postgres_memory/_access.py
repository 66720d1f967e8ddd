"""Counting accesses without slowing them: touches are gathered in memory and written together.

A touch is written some seconds after it happened, by a task that belongs to nobody's call, so that a call that is
cancelled takes nothing with it. Nothing runs while there is nothing to write: a timer waits, and a task exists only
while it writes. Knows no table and no connection: ``write`` is given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextvars import Context as Variables
from time import monotonic
from typing import Literal, NamedTuple

from ._waiting import finished
from .errors import PostgresMemoryError

AccessTracking = Literal["batched", "inline", "off"]

#: Seconds from the first touch that waits to the writing of all that wait by then.
INTERVAL = 5.0
#: So many touched memories are written at once without waiting for the interval; also the most in one statement.
ENOUGH = 1_000
#: While the database does not answer, touches of at most so many memories are kept; others are not counted.
MOST = 10_000
#: Seconds that `Toucher.close` gives the last writing; a pool may have no connection left to give.
CLOSING = 5.0

_logger = logging.getLogger(__name__)


class Touch(NamedTuple):
    """How often a memory was accessed, and when last, on the monotonic clock."""

    times: int
    last: float


Touches = dict[str, Touch]
#: Writes touches and returns the ids of those that must be tried again later, because others hold their memories.
Write = Callable[[Touches], Awaitable[Collection[str]]]


class Toucher:
    """Takes touches and has them written by ``write``.

    With ``inline`` a touch is written before `touch` returns. Inside a caller's transaction it waits nevertheless:
    written there, it would lock its row until the caller commits, and two readers that touch the same memories in
    another order would deadlock.
    """

    def __init__(self, write: Write, *, inline: bool = False) -> None:
        self._write = write
        self._inline = inline
        self._waiting: Touches = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._left_some = False
        self._failing = False
        self._closing = asyncio.Lock()
        self._closed = False

    async def touch(self, ids: Collection[str], *, in_transaction: bool) -> None:
        """Count one access to each of ``ids``. Raises only what an inline writing raises."""
        touches = dict.fromkeys(ids, Touch(1, monotonic()))
        if self._inline and not in_transaction:
            await self._write_all(touches)
        self._gather(touches)

    def _gather(self, touches: Touches) -> None:
        if self._closed:
            return
        waiting = self._waiting
        for id_, touch in touches.items():
            known = waiting.get(id_)
            if known is not None:
                waiting[id_] = Touch(known.times + touch.times, max(known.last, touch.last))
            elif len(waiting) < MOST:
                waiting[id_] = touch
        self._schedule()

    def _schedule(self) -> None:
        """See to it that what waits is written: now if it is much and can be, else when the interval is over."""
        if not self._waiting or self._writing is not None or self._closing.locked() or self._closed:
            return
        if len(self._waiting) >= ENOUGH and not self._left_some:
            self._start()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(INTERVAL, self._start, context=Variables())

    def _start(self) -> None:
        self._stop_timer()
        # Without the caller's context variables: the task is nobody's, and must not pass for a part of a request.
        self._writing = asyncio.get_running_loop().create_task(self._flush(), context=Variables())
        self._writing.add_done_callback(self._done, context=Variables())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _done(self, _: asyncio.Task[None]) -> None:
        self._writing = None
        self._schedule()

    async def _flush(self) -> None:
        """Write what waits. What could not be written waits on; the log says so once until it succeeds again."""
        taken, self._waiting = self._waiting, {}
        try:
            await self._write_all(taken)
            self._failing = False
        except PostgresMemoryError as error:
            if not self._failing:
                _logger.warning("access counts cannot be written now: %s", error)
            self._failing = True
        finally:
            self._left_some = bool(taken)
            self._gather(taken)

    async def _write_all(self, touches: Touches) -> None:
        """Write ``touches`` in the order of their ids; what is written is removed from them."""
        ids = sorted(touches)
        for start in range(0, len(ids), ENOUGH):
            batch = {id_: touches[id_] for id_ in ids[start : start + ENOUGH]}
            again = set(await self._write(batch))
            for id_ in batch.keys() - again:
                del touches[id_]

    async def close(self) -> None:
        """Write what waits and stop. What cannot be written within `CLOSING` seconds is given up. Idempotent."""
        async with self._closing:
            self._stop_timer()
            try:
                async with asyncio.timeout(CLOSING):
                    if self._writing is not None:
                        await asyncio.wait({self._writing})
                    await self._flush()
            except TimeoutError:
                _logger.warning("no connection was free for the last access counts")
            finally:
                try:
                    await self._end_writing()
                finally:
                    self._give_up()

    async def _end_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await finished([self._writing])

    def _give_up(self) -> None:
        self._closed = True
        if self._waiting:
            _logger.warning("accesses to %d memories were not counted", len(self._waiting))
            self._waiting = {}
