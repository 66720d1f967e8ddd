"""Connections: opening, borrowing, running statements, transactions, and the driver's errors in our words.

Knows no table. Whoever needs the schema checked or read at opening gives a callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import asyncpg

from ._driver_errors import DRIVER_ERRORS, translate, translated
from ._validation import check_limit
from .config import Dsn
from .errors import (
    ClosedError,
    ConfigurationError,
    DatabaseError,
    EventLoopError,
    InvalidValueError,
)

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    from ._sql.compile import Statement

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

OpenedT = TypeVar("OpenedT")
ResultT = TypeVar("ResultT")

#: How much of a COPY is handed to the driver at a time.
_PIECE = 1 << 18

#: A transaction that the server chose to end so that another could go on: a deadlock, a serialization failure. Nothing
#: of it was written, and the same once more may succeed.
_VICTIM = {"40P01", "40001"}
#: How often a transaction runs before its caller learns of that, and how much longer each pause is, in seconds.
_RUNS = 12
_PAUSE = 0.01
_LONGEST_PAUSE = 1.0
_chance = SystemRandom()

_TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK")


def _savepoint(level: int) -> tuple[str, str, str]:
    """Return the statements of a savepoint. One within another has a name of its own.

    Under one name, where the answer to the inner SAVEPOINT is not awaited to its end, the outer one's rollback would
    stop at the inner one, and keep what came between.
    """
    name = f"postgres_memory_{level}"
    return (
        f"SAVEPOINT {name}",
        f"RELEASE SAVEPOINT {name}",
        f"ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}",
    )


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How many connections a pool of our own keeps."""

    min_size: int = 1
    max_size: int = 10

    def __post_init__(self) -> None:
        check_limit(self.min_size, "pool_min_size")
        if check_limit(self.max_size, "pool_max_size") < max(1, self.min_size):
            raise InvalidValueError("pool_max_size", "must be at least 1, and not less than pool_min_size")


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """The connections of a pool: how many there are, how many work, and how many there may be."""

    size: int
    in_use: int
    max_size: int


class Database(Generic[OpenedT]):
    """One pool, opened at the first use on the running event loop.

    ``find_dsn`` names the database when it opens; with a ``pool`` given, that one is borrowed and never closed.
    ``on_open`` runs once on the first connection; what it returns is `opened`, for the statements that follow.
    """

    def __init__(
        self,
        *,
        pool: Pool | None,
        find_dsn: Callable[[], Awaitable[Dsn]],
        on_open: Callable[[Connection], Awaitable[OpenedT]],
        on_close: Callable[[], Awaitable[None]],
        options: PoolOptions,
    ) -> None:
        self._borrowed = pool
        self._find_dsn = find_dsn
        self._on_open = on_open
        self._on_close = on_close
        self._options = options
        self._pool: Pool | None = None
        self._opened: OpenedT | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False
        self._waiting = 0
        self._nobody_waits = asyncio.Event()

    async def opened(self) -> OpenedT:
        """Open if need be and return what ``on_open`` returned."""
        self.refuse_if_closed()
        opening = self._bind()
        if self._opened is None:
            return await self._open(opening)
        return self._opened

    def refuse_if_closed(self) -> None:
        """Raise ClosedError after `close`."""
        if self._closed:
            raise ClosedError("this object was closed; make a new one")

    def _bind(self) -> asyncio.Lock:
        """Bind this object to the running event loop; while nothing is open, it may still move to another one."""
        loop = asyncio.get_running_loop()
        # Private to asyncpg, and looked at gently: without it, the driver's errors are less clear, nothing else.
        if getattr(self._borrowed, "_loop", loop) is not loop:
            raise EventLoopError("the borrowed pool belongs to another event loop; make a pool for each loop")
        if self._opening is None or self._loop is not loop:
            if self._opened is not None or (self._opening is not None and self._opening.locked()):
                raise EventLoopError(
                    "this object was opened on another event loop; make one for each loop, or use it on its own"
                )
            self._loop, self._opening = loop, asyncio.Lock()
        return self._opening

    async def _open(self, opening: asyncio.Lock) -> OpenedT:
        async with opening:
            self.refuse_if_closed()
            if self._opened is None:
                pool = self._borrowed or await self._create_pool()
                try:
                    with translated():
                        async with pool.acquire() as connection:
                            opened = await self._on_open(connection)
                    self.refuse_if_closed()
                except BaseException:
                    if pool is not self._borrowed:
                        pool.terminate()
                    raise
                self._pool, self._opened = pool, opened
            return self._opened

    async def _create_pool(self) -> Pool:
        dsn = await self._find_dsn()
        # Not chained: the driver's message about a DSN may repeat a part of the password.
        with translated(), suppress(ValueError):
            return await asyncpg.create_pool(
                dsn.value,
                min_size=self._options.min_size,
                max_size=self._options.max_size,
                # The reset query costs a round trip per call. Nothing of ours outlives a transaction, so there
                # is nothing to reset.
                reset=_no_reset,
            )
        raise unreadable(dsn)

    async def close(self) -> None:
        """Close what was made here, after the calls that hold a connection. Idempotent."""
        opening = self._bind()
        self._closed = True
        async with opening:  # what is being opened, or closed by another task, comes first
            pool, self._pool, self._opened = self._pool, None, None
            try:
                if pool is not None and pool is not self._borrowed:
                    while self._waiting:
                        self._nobody_waits.clear()
                        await self._nobody_waits.wait()
                    await pool.close()
            finally:
                await self._on_close()

    async def fetch(
        self, statement: Statement, parameters: Mapping[str, Any], connection: Connection | None = None
    ) -> list[asyncpg.Record]:
        """Run ``statement`` on ``connection``, or on one of the pool, and return its rows."""
        arguments = [parameters[name] for name in statement.parameters]
        try:
            if connection is not None:
                return await connection.fetch(statement.sql, *arguments)
            pool = self._pool
            assert pool is not None
            own = await self._acquire(pool)
            try:
                return await own.fetch(statement.sql, *arguments)
            finally:
                await self._release(pool, own)
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    async def copy(
        self, connection: Connection, table: tuple[str, str], columns: Sequence[str], data: bytes
    ) -> None:
        """Load rows in the binary COPY format into ``table``, a schema and a name."""
        schema, name = table
        with translated():
            await connection.copy_to_table(
                name, schema_name=schema, columns=list(columns), source=_pieces(data), format="binary"
            )

    async def _acquire(self, pool: Pool) -> PoolConnectionProxy[asyncpg.Record]:
        """Take a connection. Who still waits for one when this object is closed gets none.

        The pool itself would close the connection under its new holder, or open another one.
        """
        self._waiting += 1
        try:
            connection = await pool.acquire()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._nobody_waits.set()
        if self._closed:
            await pool.release(connection)
            self.refuse_if_closed()
        return connection

    async def _release(self, pool: Pool, connection: PoolConnectionProxy[asyncpg.Record]) -> None:
        """Give a connection back.

        The pool's own release is a task behind a shield: two more turns of the event loop, a tenth of a millisecond.
        The shield is for the reset query, which a pool of ours does not send, so that its parts run here without a
        pause; where the connection still waits for a cancelled statement, being cancelled again closes it.
        """
        proxy = cast(Any, connection)
        if pool is self._borrowed or proxy._con is None:
            await pool.release(connection)
            return
        proxy._con._on_release()
        await proxy._holder.release(None)

    @asynccontextmanager
    async def _lent(self, pool: Pool) -> AsyncIterator[Connection]:
        with translated():
            connection = await self._acquire(pool)
        try:
            yield connection
        except BaseException:
            with suppress(*DRIVER_ERRORS):
                await pool.release(connection)
            raise
        with translated():
            await pool.release(connection)

    @asynccontextmanager
    async def acquired(self) -> AsyncIterator[Connection]:
        """Lend a connection of the pool. Errors of the body pass as they are."""
        await self.opened()
        pool = self._pool
        assert pool is not None
        async with self._lent(pool) as connection:
            yield connection

    @asynccontextmanager
    async def unchecked(self, connection: Connection | None = None) -> AsyncIterator[Connection]:
        """Lend a connection also where ``on_open`` refuses the database: the caller's, a pool's, or one of its own."""
        pool = self._pool or self._borrowed
        if connection is not None:
            yield connection
        elif pool is not None:
            async with self._lent(pool) as own:
                yield own
        else:
            async with self._single() as single:
                yield single

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Connection]:
        """Lend a connection for long work under settings of its own: a new one, or one of a borrowed pool."""
        await self.opened()
        async with self._single() if self._borrowed is None else self._lent(self._borrowed) as connection:
            yield connection

    @asynccontextmanager
    async def _single(self) -> AsyncIterator[Connection]:
        single = await self._connect()
        try:
            yield single
        finally:
            with suppress(*DRIVER_ERRORS):
                await single.close()

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        self.refuse_if_closed()
        dsn = await self._find_dsn()
        with translated(), suppress(ValueError):
            return await asyncpg.connect(dsn.value)
        raise unreadable(dsn)

    def pool_counts(self) -> PoolCounts | None:
        """Return how many connections the pool has, if it is open."""
        pool = self._pool or self._borrowed
        if pool is None:
            return None
        return PoolCounts(pool.get_size(), pool.get_size() - pool.get_idle_size(), pool.get_max_size())

    @asynccontextmanager
    async def transaction(
        self, connection: Connection | None = None, level: int = 0
    ) -> AsyncIterator[Connection]:
        """Run the body in a transaction on a connection of the pool, or on the caller's ``connection``.

        Where the caller is in a transaction, it is a savepoint; ``level`` counts those around it. Errors of the body
        pass as they are.
        """
        if connection is None:
            async with self.acquired() as own, self.transaction(own):
                yield own
            return
        await self.opened()
        begin, commit, rollback = _savepoint(level) if connection.is_in_transaction() else _TRANSACTION
        try:
            with translated():
                await connection.execute(begin)
            yield connection
            with translated():
                outcome = await connection.execute(commit)
        except BaseException:
            # A lost connection cannot roll back, and need not: the server does. What the body raised is what counts.
            with suppress(*DRIVER_ERRORS):
                await connection.execute(rollback)
            raise
        if outcome == "ROLLBACK":
            # The server answers so, without an error, when a statement had failed.
            raise DatabaseError(
                "the transaction was rolled back: a statement in it had failed, or was cancelled, and that error did "
                "not leave the block",
                sqlstate="25P02",
            )


async def again_if_a_victim(run: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run a whole transaction, and run it again where the server ended it in favour of another one."""
    for number in range(1, _RUNS):
        try:
            return await run()
        except DatabaseError as error:
            if error.sqlstate not in _VICTIM:
                raise
        # By chance, or those that met would meet again; within a bound that doubles.
        await asyncio.sleep(_chance.uniform(0, min(_PAUSE * 2**number, _LONGEST_PAUSE)))
    return await run()


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]


def unreadable(dsn: Dsn) -> ConfigurationError:
    """Return the error for a DSN that the driver cannot read."""
    return ConfigurationError(f"the DSN {dsn} cannot be read; is every special character percent-encoded?")


async def _no_reset(_: object) -> None:
    """Reset nothing."""
