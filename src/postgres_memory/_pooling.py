"""Connections of a pool: lending them, within a time limit, and knowing who holds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context as Variables
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import asyncpg

from ._driver_errors import DRIVER_ERRORS, translated
from ._telemetry import unwatch, used, waited, waited_in_vain
from ._validation import check_limit, check_seconds
from ._waiting import LETTING_GO, finished, through
from .errors import (
    ClosedError,
    DatabaseUnavailableError,
    InvalidValueError,
    PoolExhaustedError,
)

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

#: Seconds in which a call learns by itself that its connection is lost.
_LOST_CALL = 1.0
#: How many of those who hold a connection an error names.
_MOST_NAMED = 10
#: Seconds for which a connection that nobody takes is kept from the pool, and uses after which it goes there anyway.
_UNUSED, _USES = 1.0, 1_000

#: How much of a COPY is handed to the driver at a time.
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How many connections a pool of our own keeps, and how long is waited, in seconds.

    For a connection to be made, for one of the pool to be free, and for the answer to a statement (None: for ever).
    """

    min_size: int = 1
    max_size: int = 10
    connect_timeout: float = 10.0
    acquire_timeout: float = 30.0
    statement_timeout: float | None = None

    def __post_init__(self) -> None:
        check_limit(self.min_size, "pool_min_size")
        if check_limit(self.max_size, "pool_max_size") < max(1, self.min_size):
            raise InvalidValueError("pool_max_size", "must be at least 1, and not less than pool_min_size")
        check_seconds(self.connect_timeout, "connect_timeout")
        check_seconds(self.acquire_timeout, "acquire_timeout")
        if self.statement_timeout is not None:
            check_seconds(self.statement_timeout, "statement_timeout")


class PoolCounts(NamedTuple):
    """The connections of a pool: how many there are, how many work, and how many there may be."""

    size: int
    in_use: int
    max_size: int


@contextmanager
def in_time() -> Iterator[None]:
    """Translate the errors of connecting: what takes too long is not there."""
    with translated():
        try:
            yield
        except TimeoutError as error:
            raise DatabaseUnavailableError(
                "no connection could be made in time", nothing_written=True
            ) from error


async def stop(connection: Connection) -> None:
    """Stop what was begun on a connection outside of a transaction, however often the caller is cancelled.

    A statement that was prepared, and not executed, would leave the transaction open that it would have been.
    """
    with suppress(*DRIVER_ERRORS):
        await through(lambda: connection.execute("SELECT", timeout=LETTING_GO))


async def unless_lost(connection: Connection, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Make a call that may wait for a connection to take more, which the driver does for ever where it is lost."""
    lost = asyncio.get_running_loop().create_future()

    def tell(_: object) -> None:
        if not lost.done():
            lost.set_result(None)

    with translated():
        connection.add_termination_listener(tell)
    calling = asyncio.create_task(call())
    try:
        await asyncio.wait((calling, lost), return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            await asyncio.wait((calling,), timeout=_LOST_CALL)  # as a rule it has learnt of it too
    finally:
        # A proxy that was given back has no listeners any more.
        with suppress(*DRIVER_ERRORS):
            connection.remove_termination_listener(tell)
        calling.cancel()
        await finished([calling])
    if calling.cancelled():
        raise DatabaseUnavailableError("the connection was lost while data was sent", nothing_written=False)
    calling.result()


class _Held(NamedTuple):
    """Who holds a connection, for what, and since when on the clock of the event loop."""

    task: str
    purpose: str
    since: float


class _Aside:
    """The connection that was used last, for who takes one next: the pool's ways cost as much as a statement's.

    It goes back to the pool, which knows when one is to be closed, after `_UNUSED` seconds at the latest that nobody
    took it, and every `_USES` times.
    """

    def __init__(
        self, give_back: Callable[[PoolConnectionProxy[asyncpg.Record]], Coroutine[Any, Any, None]]
    ) -> None:
        self._give_back = give_back
        self._connection: PoolConnectionProxy[asyncpg.Record] | None = None
        self._uses = 0
        self._timer: asyncio.TimerHandle | None = None
        self._giving: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return self._connection is not None and _lives(self._connection)

    def take(self) -> PoolConnectionProxy[asyncpg.Record] | None:
        """Return the connection, if one lies here; not one that was lost meanwhile, whose place the pool gets back."""
        connection, self._connection = self._connection, None
        if connection is None or _lives(connection):
            return connection
        if cast(Any, connection)._con is not None:
            connection.terminate()
        return None

    def lay(self, connection: PoolConnectionProxy[asyncpg.Record]) -> bool:
        """Lay a connection here, if there is room and it is fit for it."""
        self._uses += 1
        if self._connection is not None or not self._uses % _USES or not _lives(connection):
            return False
        self._connection = connection
        if self._timer is None:
            # Not in the context of the call, which may hold much for as long.
            self._timer = asyncio.get_running_loop().call_later(_UNUSED, self._expire, context=Variables())
        return True

    def _expire(self) -> None:
        self._timer = None
        connection = self.take()
        if connection is not None:
            self._giving = asyncio.create_task(self._give_back(connection), context=Variables())

    async def clear(self) -> None:
        """Give back what lies here, and let what is being given back arrive."""
        if self._timer is not None:
            self._timer.cancel()
            self._expire()
        if self._giving is not None:
            await asyncio.wait([self._giving])


def _lives(connection: PoolConnectionProxy[asyncpg.Record]) -> bool:
    # A connection that the server closed is taken out of its proxy, and its place in the pool is free.
    return cast(Any, connection)._con is not None and not connection.is_closed()


class Lending:
    """A pool whose connections are lent; ``borrowed`` if it is the caller's, ``name`` for telemetry."""

    def __init__(self, pool: Pool, *, borrowed: bool, acquire_timeout: float, name: str) -> None:
        self.pool = pool
        self.borrowed = borrowed
        self.name = name
        self._acquire_timeout = acquire_timeout
        self._held: dict[object, _Held] = {}
        #: How many connections of a pool of our own were given back, and not taken again: who takes one does not wait.
        self._given_back = 0
        self._waiting = 0
        self._nobody_waits = asyncio.Event()
        self._over = False
        self._aside: _Aside | None = None if borrowed else _Aside(self._give_back)
        self._forgot = 0.0

    async def acquire(self, purpose: str) -> PoolConnectionProxy[asyncpg.Record]:
        """Take a connection. Who still waits for one when lending ends gets none.

        The pool itself would close the connection under its new holder, or open another one. Raises
        PoolExhaustedError if none is free in time.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        connection = None if self._aside is None else self._aside.take()
        if connection is None:
            began = since
            connection = await self._from_pool(loop)
            since = loop.time()
            waited(self.name, since - began)
        else:
            waited(self.name, 0.0)
        task = asyncio.current_task()
        self._held[connection] = _Held("" if task is None else task.get_name(), purpose, since)
        return connection

    async def _from_pool(self, loop: asyncio.AbstractEventLoop) -> PoolConnectionProxy[asyncpg.Record]:
        self._waiting += 1
        try:
            connection = await self._first_free(loop)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._nobody_waits.set()
        if self._over:
            await self.pool.release(connection)
            raise ClosedError("this object was closed; make a new one")
        return connection

    @property
    def waiting(self) -> int:
        """How many wait for a connection."""
        return self._waiting

    async def _first_free(self, loop: asyncio.AbstractEventLoop) -> PoolConnectionProxy[asyncpg.Record]:
        at_once = self._given_back > 0
        self._given_back -= at_once
        waiting = asyncio.timeout(
            None if at_once else self._acquire_timeout
        )  # a timer costs as much as acquiring
        try:
            async with waiting:
                with in_time():
                    connection = await self.pool.acquire()
        except TimeoutError:
            waited_in_vain(self.name)
            raise self._exhausted(loop.time()) from None
        if not at_once and self._given_back:
            # It was given back while it was waited for; who comes next has to wait.
            self._given_back -= 1
        return connection

    def _exhausted(self, now: float) -> PoolExhaustedError:
        held = sorted(self._held.values(), key=lambda one: one.since)
        shown = "; ".join(f"{one.task}, {now - one.since:.1f} s: {one.purpose}" for one in held[:_MOST_NAMED])
        elsewhere = self.pool.get_size() - len(held)
        others = f"; held by others: {elsewhere}" if elsewhere > 0 else ""
        return PoolExhaustedError(
            f"no connection was free within {self._acquire_timeout:g} s; all {self.pool.get_max_size()} of the pool "
            f"are in use by ({shown}{others}). Raise pool_max_size, or hold transactions for less long"
        )

    async def release(
        self, connection: PoolConnectionProxy[asyncpg.Record], *, unharmed: bool = False
    ) -> None:
        """Give a connection back. What goes wrong with it then is the pool's concern: what it did is done.

        One that is ``unharmed``, on which a single statement ran to its end, is laid aside for the next who takes one,
        unless somebody waits for it.
        """
        held = self._held.pop(connection, None)
        if held is not None:
            used(self.name, asyncio.get_running_loop().time() - held.since)
            unharmed = unharmed and held.since > self._forgot and not (self._waiting or self._over)
            if unharmed and self._aside is not None and self._aside.lay(connection):
                return
        await self._give_back(connection)

    async def _give_back(self, connection: PoolConnectionProxy[asyncpg.Record]) -> None:
        """Give a connection back to the pool.

        The pool's own release is a task behind a shield: two more turns of the event loop, a tenth of a millisecond.
        The shield is for the reset query, which a pool of ours does not send, so that its parts run here without a
        pause; where the connection still waits for a cancelled statement, being cancelled again closes it, as does a
        server that does not answer.
        """
        proxy = cast(Any, connection)
        with suppress(*DRIVER_ERRORS):
            if proxy._con is not None and not connection.is_closed() and connection.is_in_transaction():
                connection.terminate()  # it could not be rolled back: the connection is about to be lost
            if self.borrowed or proxy._con is None:
                await self.pool.release(connection, timeout=LETTING_GO)
            else:
                proxy._con._on_release()
                await proxy._holder.release(LETTING_GO)
                self._given_back += 1

    @asynccontextmanager
    async def lent(self, purpose: str) -> AsyncIterator[Connection]:
        """Lend a connection. Errors of the body pass as they are."""
        with translated():
            connection = await self.acquire(purpose)
        try:
            yield connection
        except BaseException:
            await stop(connection)
            raise
        finally:
            await self.release(connection)

    async def forget(self) -> None:
        """Make a pool of our own connect anew: what it is connected to takes no writes any more."""
        if self._aside is not None:
            self._forgot = asyncio.get_running_loop().time()
            await self.pool.expire_connections()
            await self._aside.clear()

    async def end(self) -> None:
        """Close a pool of our own after the calls that hold a connection, and lend nothing more."""
        self._over = True
        unwatch(self)
        if self._aside is not None:
            try:
                while self._waiting:
                    self._nobody_waits.clear()
                    await self._nobody_waits.wait()
                await self._aside.clear()
                await self.pool.close()
            except BaseException:
                self.pool.terminate()
                raise

    def counts(self) -> PoolCounts:
        """Return how many connections the pool has."""
        pool, aside = self.pool, 0 if self._aside is None else len(self._aside)
        return PoolCounts(
            pool.get_size(), pool.get_size() - pool.get_idle_size() - aside, pool.get_max_size()
        )


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """Yield what a COPY loads, some of it at a time."""
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
