"""One event loop in a background thread, shared by every object of the process that needs one, and calls into it.

anyio's portal starts the loop, says when it is ready, and stops and joins it when its last user is gone. Calls go by
`asyncio.run_coroutine_threadsafe`: one change of threads where the portal's own `call` makes two, and a cancelled
call is cancelled once, as by Ctrl-C under `asyncio.run`; a cancel scope of anyio would go on cancelling, also the
ROLLBACK that follows.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.from_thread import BlockingPortalProvider

from .errors import ClosedError, PostgresMemoryError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.from_thread import BlockingPortal

T = TypeVar("T")

#: Seconds that a call which is being cancelled, and a close at the interpreter's exit, may still take.
CANCELLING_SECONDS = 10.0
EXIT_SECONDS = 3.0

#: Items of an iterable, and what it raised instead of the next one.
_Chunk = tuple[list[Any], Exception | None]

#: Items of a caller's iterable that change threads at once: 100 a time cost 1 µs each, one by one 100 µs.
CHUNK = 100

_logger = logging.getLogger("postgres_memory")


class _Process:
    """What all objects of this process share."""

    def __init__(self) -> None:
        self.portal: BlockingPortal | None = None
        self._begin()

    def _begin(self) -> None:
        self.turn = threading.Lock()
        self.portals = BlockingPortalProvider()
        self.pid = os.getpid()

    def begin_in_child(self) -> None:
        """Begin anew: the thread is the parent's, and another one may have held the lock."""
        portal, self.portal = self.portal, None
        if portal is not None:
            # Freeing what started the portal stops it, and would wait for ever. This marks it as stopped; it awaits
            # nothing, so that one step is all of it.
            with suppress(StopIteration, RuntimeError):
                portal.stop().send(None)
        self._begin()


_process = _Process()
os.register_at_fork(after_in_child=_process.begin_in_child)


class Call:
    """A call under way, as the thread that waits for it sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()

    def do_in_caller(self, job: Callable[[], object]) -> None:
        """Have the waiting thread do ``job``. Whatever that raises ends the wait and cancels the call."""
        self._jobs.put(job)

    async def items(self, iterable: Iterable[Any]) -> AsyncIterator[Any]:
        """Yield what ``iterable`` yields, read in the waiting thread, which it may belong to, as a cursor does.

        Raises what it raises, after the items before that: the verb decides what becomes of those.
        """
        iterator = iter(iterable)
        while True:
            chunk: asyncio.Future[_Chunk] = self._loop.create_future()
            self.do_in_caller(partial(self._answer, chunk, iterator))
            items, error = await chunk
            for item in items:
                yield item
            if error is not None:
                raise error
            if len(items) < CHUNK:
                return

    def _answer(self, chunk: asyncio.Future[_Chunk], iterator: Iterator[Any]) -> None:
        items: list[Any] = []
        with _Failure() as failure:
            items.extend(islice(iterator, CHUNK))  # keeps what came before an error
        self._loop.call_soon_threadsafe(_fulfil, chunk, (items, failure.error))

    def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run ``function`` on the loop and wait for it."""
        future: Future[T | _Escaped] | None = None
        try:
            future = asyncio.run_coroutine_threadsafe(self._run(function), self._loop)
            future.add_done_callback(lambda _: self._jobs.put(None))
            while (job := self._jobs.get()) is not None:
                job()
        except BaseException:  # a KeyboardInterrupt, what another signal handler raised, or an error of a job
            self._loop.call_soon_threadsafe(self._cancel)
            if future is not None:
                wait([future], CANCELLING_SECONDS)
            raise
        outcome = future.result()
        if isinstance(outcome, _Escaped):
            raise outcome.error
        return outcome

    async def _run(self, function: Callable[[], Awaitable[T]]) -> T | _Escaped:
        self._task = asyncio.current_task()
        if self._cancelled:
            raise asyncio.CancelledError
        try:
            return await function()
        except (KeyboardInterrupt, SystemExit) as error:
            # Out of a task they would end the loop, under every other thread.
            return _Escaped(error)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


def _fulfil(future: asyncio.Future[T], result: T) -> None:
    if not future.done():  # it was cancelled meanwhile
        future.set_result(result)


class _Failure:
    """A block's error, which goes another way: held instead of raised, unless it interrupts the thread."""

    error: Exception | None = None

    def __enter__(self) -> _Failure:
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None


class _Escaped:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class BackgroundLoop:
    """The hold of one object on the loop: taken at its first call, given back by `close`, which runs ``closing``."""

    def __init__(self, closing: Callable[[], Awaitable[None]]) -> None:
        self._closing = closing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._over = False
        self._closes_at_exit = False

    def call(self, function: Callable[[Call], Awaitable[T]]) -> T:
        """Run ``function`` on the loop and return or raise what it does. Any thread may call, many at once.

        What interrupts the wait, such as a KeyboardInterrupt, cancels the call, waits for its end and is raised.
        """
        _refuse_to_block_a_loop()
        with self._held() as loop:
            call = Call(loop)
            try:
                return call.run(partial(function, call))
            finally:
                self._close_at_exit()

    def close(self) -> None:
        """Close the object and let go of the loop. Idempotent; what a forked child inherited is left to the parent."""
        _refuse_to_block_a_loop()
        if self._over or self._inherited:
            return
        try:
            self.call(lambda _: self._closing())
        finally:
            self._let_go()

    @property
    def _inherited(self) -> bool:
        return self._loop is not None and self._pid != _process.pid

    @contextmanager
    def _held(self) -> Iterator[asyncio.AbstractEventLoop]:
        """Give the loop, which does not stop while it is held, though another thread closes this object."""
        if self._inherited:
            raise UsageError(
                "this object was used before os.fork(), and its background thread and connections are the parent's; "
                "make a new one in the child process"
            )
        with _process.turn:
            if self._over:
                raise ClosedError("this object was closed; make a new one")
            loop = self._loop = self._loop or self._take_hold()
            _process.portals.__enter__()
        try:
            yield loop
        finally:
            _process.portals.__exit__(None, None, None)

    def _take_hold(self) -> asyncio.AbstractEventLoop:
        portal = _process.portals.__enter__()
        try:
            loop = portal.call(asyncio.get_running_loop)
        except BaseException:
            _process.portals.__exit__(None, None, None)
            raise
        self._pid, _process.portal = _process.pid, portal
        return loop

    def _let_go(self) -> None:
        with _process.turn:
            held = self._loop is not None and not self._over
            self._over = True
        if held:
            atexit.unregister(self._at_exit)
            _process.portals.__exit__(None, None, None)

    def _close_at_exit(self) -> None:
        # After the first call, not before: what that call started, and stops at exit too, is stopped after this.
        if not self._closes_at_exit:
            self._closes_at_exit = True
            atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        if self._over or self._inherited:
            return
        try:
            self.call(lambda _: asyncio.wait_for(self._closing(), EXIT_SECONDS))
        except PostgresMemoryError as error:
            _logger.warning("not closed before the interpreter's exit: %s", error)
        except TimeoutError:
            _logger.warning(
                "not closed before the interpreter's exit: a call or a transaction was still open"
            )
        except RuntimeError as error:
            # What is stopped in a thread of a pool stops itself at exit, since such pools are over by now.
            _logger.debug("at the interpreter's exit: %s", error)
        finally:
            self._let_go()


def _refuse_to_block_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "this call would block the event loop that runs in this thread; use the asynchronous class and await, or "
        "make the call in another thread (asyncio.to_thread)"
    )
