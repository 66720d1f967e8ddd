"""Concurrent `store` and `add` calls of one object go together: one statement writes what gathered during the last one.

Nobody waits in order to be joined: a call that finds nothing under way is written at once, by itself, in its own task.
Those that come meanwhile queue, and the next flight takes all of them, in the order of the calls. Each caller learns
what became of its own memory, after the COMMIT.

Only memories that can meet nothing go together: those under new ids, neither deduped nor related to others. What waits
for another transaction would hold up its neighbours, and that transaction may wait for one of them. For the same reason
a flight that takes longer than `PATIENCE` holds up nobody any more: the next one starts beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context as Variables
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._context import Context
from ..errors import (
    ClosedError,
    DatabaseError,
    DatabaseTimeoutError,
    DatabaseUnavailableError,
    OutcomeUnknownError,
    PostgresMemoryError,
)
from .room import Room
from .rows import Row, write_rows

#: Memories, and characters of their texts, that one flight takes.
MOST_ROWS = 256
MOST_CHARACTERS = 1 << 20
#: Seconds for which a flight holds up those behind it: longer than any takes that nothing holds up.
PATIENCE = 0.25


async def together(context: Context, row: Row) -> Any:
    """Write ``row``, with those of other calls if there are any, and return what its caller learns."""
    coalescer = context.coalescer
    # Fields of the metadata are read at once, since the metadata is still the caller's.
    apart = context.connection is not None or context.principal is not None or bool(context.fields.paths)
    if coalescer is None or apart:
        return await row.alone(context)
    return await coalescer.write(context, row)


@dataclass(slots=True, eq=False)
class _Call:
    """A call that waits, ``flight`` being None, or is written in one."""

    context: Context
    row: Row
    characters: int
    outcome: asyncio.Future[Any]
    flight: _Flight | None = None


@dataclass(slots=True, eq=False)
class _Flight:
    """Calls of one context whose rows are written together."""

    calls: list[_Call]
    task: asyncio.Task[None] | None = None

    async def fly(self) -> None:
        """Write the rows and tell each caller. What is raised concerns all whom nothing was told yet."""
        if len(self.calls) == 1:
            await self._alone(self.calls[0], nothing_written=True)
            return
        try:
            answers = await write_rows(self.calls[0].context, [call.row for call in self.calls])
        except DatabaseError as error:
            if not _may_be_a_rows(error):
                raise
            for call in self.calls:  # one of them, it may be
                if not call.outcome.done():  # who has given up is not written again
                    await self._alone(call, nothing_written=error.nothing_written)
            return
        for call, answer in zip(self.calls, answers, strict=True):
            _tell(call, answer)

    async def _alone(self, call: _Call, *, nothing_written: bool) -> None:
        """Write one row by itself; ``nothing_written`` says whether it cannot have been written before."""
        answer: Any = (await asyncio.gather(call.row.alone(call.context), return_exceptions=True))[0]
        if isinstance(answer, DatabaseError):
            answer.nothing_written = answer.nothing_written and nothing_written
        _tell(call, answer)
        if isinstance(answer, DatabaseError) and not _may_be_a_rows(answer):
            # Nor can the others be written now.
            raise DatabaseUnavailableError(
                str(answer), sqlstate=answer.sqlstate, nothing_written=nothing_written
            ) from answer

    def tell_the_others(self) -> None:
        """Tell whom nothing was told what the flight ended with."""
        assert self.task is not None
        error = asyncio.CancelledError() if self.task.cancelled() else self.task.exception()
        for call in self.calls:
            _tell(call, error)


def _tell(call: _Call, answer: Any) -> None:
    if call.outcome.done():
        return  # the caller has given up, or knows
    if isinstance(answer, asyncio.CancelledError):
        call.outcome.cancel()
    elif isinstance(answer, BaseException):
        call.outcome.set_exception(_own(answer))
    else:
        call.outcome.set_result(answer)


def _own(error: BaseException) -> BaseException:
    """Return an error of one's own: each caller adds to its traceback and may change it."""
    if not isinstance(error, PostgresMemoryError):
        return error
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    own.__cause__ = error.__cause__
    return own


def _may_be_a_rows(error: DatabaseError) -> bool:
    """Say whether one of several rows may be to blame: the server refused what it was given."""
    if isinstance(error, DatabaseUnavailableError | OutcomeUnknownError):
        return False
    return error.sqlstate is not None or not isinstance(error, DatabaseTimeoutError)


class Coalescer:
    """Gathers the rows of concurrent calls."""

    def __init__(self) -> None:
        self._queue: deque[_Call] = deque()
        self._room = Room()
        #: What is under way and holds up the queue: a flight, or a call that is written by itself.
        self._ahead: object | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self._closed = False

    async def write(self, context: Context, row: Row) -> Any:
        """Write ``row`` and return what its caller learns, once it is committed."""
        await context.database.opened()  # where it cannot be, each caller learns it by itself
        if self._closed:
            raise ClosedError("this object was closed; make a new one")
        if self._ahead is None and not self._room:
            return await self._at_once(context, row)
        characters = row.characters
        await self._room.enter(characters)
        call = _Call(context, row, characters, asyncio.get_running_loop().create_future())
        self._queue.append(call)
        self._move()
        try:
            return await call.outcome
        except asyncio.CancelledError:
            self._give_up(call)
            raise

    async def _at_once(self, context: Context, row: Row) -> Any:
        this = self._ahead = object()
        try:
            return await row.alone(context)
        finally:
            self._over(this)

    def _over(self, this: object) -> None:
        if self._ahead is this:
            self._ahead = None
            self._move()

    def _move(self) -> None:
        """Start the next flight, if anybody waits and nothing is under way; it is waited for only so long."""
        if self._queue and self._ahead is None:
            self._stop_timer()
            self._start()
        if not self._queue:
            self._stop_timer()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PATIENCE, self._impatient, context=Variables())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _impatient(self) -> None:
        self._timer = self._ahead = None
        self._move()

    def _start(self) -> None:
        flight = self._ahead = _Flight(self._taken())
        for call in flight.calls:
            call.flight = flight
        # Nobody's task: it must not pass for a part of a request.
        name = f"{len(flight.calls)} calls of store or add"
        flight.task = asyncio.get_running_loop().create_task(flight.fly(), name=name, context=Variables())
        flight.task.add_done_callback(partial(self._landed, flight), context=Variables())

    def _taken(self) -> list[_Call]:
        calls, characters = [self._queue.popleft()], 0
        while self._queue and self._queue[0].context is calls[0].context and len(calls) < MOST_ROWS:
            characters += calls[-1].characters
            if characters + self._queue[0].characters > MOST_CHARACTERS:
                break
            calls.append(self._queue.popleft())
        return calls

    def _landed(self, flight: _Flight, _: object) -> None:
        """Go on when a flight is over: the callers it told have gone on by then, and called again, it may be."""
        flight.tell_the_others()
        for call in flight.calls:
            self._room.leave(call.characters)
        self._over(flight)
        self._moved.set()

    def _give_up(self, call: _Call) -> None:
        """Leave out a call that waits. One that is under way goes on for the sake of the others, if there are any."""
        flight = call.flight
        if flight is None:
            self._queue.remove(call)
            self._room.leave(call.characters)
            self._moved.set()
        elif flight.task is not None and all(other.outcome.done() for other in flight.calls):
            flight.task.cancel()

    async def close(self) -> None:
        """Refuse further calls and wait until those that came before are written, or failed. Idempotent."""
        self._closed = True
        while self._room:
            self._moved.clear()
            await self._moved.wait()
