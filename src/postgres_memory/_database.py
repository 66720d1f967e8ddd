"""Connections: opening, running statements, transactions.

Knows no table. Whoever needs the schema checked or read at opening gives a callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import asyncpg

from ._driver_errors import DRIVER_ERRORS, certified, harmless, translate, translated, unreadable
from ._pooling import Lending, PoolCounts, PoolOptions, in_time, pieces, stop, unless_lost
from ._retrying import passes_or_is_late, persistent, unknown
from ._route import connect, create_pool, is_direct
from ._telemetry import SYSTEM, pool_name, watch
from ._tokens import Tokens, changed_by
from ._transactions import (
    READ_ONLY,
    CommitLostError,
    LocalSettings,
    beginning,
    ended,
    executed,
    rolled_back,
    within,
)
from .config import Dsn
from .errors import (
    ClosedError,
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailableError,
    EventLoopError,
    PostgresMemoryError,
)

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    from ._pooling import Connection, Pool
    from ._replica import Replica
    from ._sql.compile import Statement

_UNTIL_TIDY = 500


class Opened(Protocol):
    """What is known of the schema of an opened database: how a transaction leaves a mark of having committed."""

    def commit(self, namespace: str, token: str) -> str:
        """Return the SQL that commits and leaves ``token``, if the transaction wrote anything."""

    @property
    def claim(self) -> Statement:
        """The statement that takes ``token`` in ``namespace``, after waiting for who may have it.

        Its row says how many rows were ``changed`` by the write that left it, less than 0 if there is no such write,
        and whether that ``is_known``: of an old token it is not, since such are deleted.
        """


OpenedT = TypeVar("OpenedT", bound=Opened)


class Database(Generic[OpenedT]):
    """One pool, opened at the first use on the running event loop.

    ``find_dsn`` names the database when it opens, ``find_direct_dsn`` the way to it past a pooler, if any; with a
    ``pool`` given, that one is borrowed and never closed.
    ``on_open`` runs once on the first connection; what it returns is `opened`, for the statements that follow.
    """

    def __init__(
        self,
        *,
        pool: Pool | None,
        find_dsn: Callable[[], Awaitable[Dsn]],
        find_direct_dsn: Callable[[], Dsn | None],
        on_open: Callable[[Connection], Awaitable[OpenedT]],
        on_close: Callable[[], Awaitable[None]],
        options: PoolOptions,
        retry_for: float = 0.0,
    ) -> None:
        #: For how many seconds what passes is tried again, outside of the caller's transactions.
        self.retry_for = retry_for
        self._borrowed = pool
        self._find_dsn = find_dsn
        self._find_direct_dsn = find_direct_dsn
        self._on_open = on_open
        self._on_close = on_close
        self._options = options
        self._lending: Lending | None = None
        self._opened: OpenedT | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False
        self._untidy = 0
        self.tokens = Tokens()
        #: The namespaces that were found to have a change feed.
        self.fed: set[str] = set()
        #: What is called when it is being closed.
        self.on_closing: set[Callable[[], object]] = set()
        #: What telemetry is told of it; more, once it was opened.
        self.described = SYSTEM
        #: Where reads may go that say so, and what is told of each write.
        self.replica: Replica | None = None

    async def opened(self) -> OpenedT:
        """Open if need be and return what ``on_open`` returned."""
        self.refuse_if_closed()
        opening = self._bind()
        if self._opened is None:
            return await self._open(opening)
        return self._opened

    async def has_way_past(self) -> bool:
        """Say whether another way to the server is known than the one that calls take."""
        direct = self._find_direct_dsn()
        return direct is not None and (self._borrowed is not None or direct != await self._find_dsn())

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
                    with harmless(), translated():
                        async with pool.acquire() as connection:
                            opened = await self._on_open(connection)
                            await self.tokens.ask(connection)
                    self.refuse_if_closed()
                except BaseException:
                    if pool is not self._borrowed:
                        pool.terminate()
                    raise
                self._lending, self._opened = self._lending_of(pool), opened
                watch(self._lending)
            return self._opened

    async def _create_pool(self) -> Pool:
        dsn = await self._find_dsn()
        # Not chained: the driver's message about a DSN may repeat a part of the password.
        with in_time(), suppress(ValueError), certified():
            return await create_pool(dsn, self._options)
        raise unreadable(dsn)

    async def close(self) -> None:
        """Close what was made here, after the calls that hold a connection. Idempotent."""
        opening = self._bind()
        self._closed = True
        for tell in tuple(self.on_closing):
            tell()
        async with opening:  # what is being opened, or closed by another task, comes first
            lending, self._lending, self._opened = self._lending, None, None
            try:
                if self.replica is not None:
                    await self.replica.close()
                if lending is not None:
                    await lending.end()
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
            lending = self._lent_from()
            own = await lending.acquire(statement.name)
            unharmed = False
            try:
                rows = await own.fetch(statement.sql, *arguments)
                unharmed = True
                return rows
            except (asyncio.CancelledError, asyncpg.InterfaceError):
                await stop(own)
                raise
            finally:
                await lending.release(own, unharmed=unharmed)
                if statement.writes:
                    self._wrote()
        except DRIVER_ERRORS as error:
            if isinstance(error, PostgresMemoryError):
                raise  # a DatabaseTimeoutError is an OSError too
            translation = translate(error)
            if connection is None:
                await self._forget_if_demoted(translation)
            raise translation from error

    def _wrote(self) -> None:
        if self.replica is not None:
            self.replica.wrote()

    def is_time_to_tidy(self) -> bool:
        """Say so once in `_UNTIL_TIDY` calls: what every write leaves has then become some."""
        self._untidy = (self._untidy + 1) % _UNTIL_TIDY
        return self._untidy == 0

    async def _forget_if_demoted(self, error: Exception) -> None:
        """Connect anew where the server takes no writes any more: another one may have taken over."""
        if self._lending is not None and isinstance(error, DatabaseError) and error.sqlstate == READ_ONLY:
            await self._lending.forget()

    async def copy(
        self, connection: Connection, table: tuple[str, str], columns: Sequence[str], data: bytes
    ) -> None:
        """Load rows in the binary COPY format into ``table``, a schema and a name."""
        schema, name = table

        async def copying() -> None:
            with translated():
                await connection.copy_to_table(
                    name, schema_name=schema, columns=list(columns), source=pieces(data), format="binary"
                )

        await unless_lost(connection, copying)

    def _lent_from(self) -> Lending:
        if self._lending is None:
            raise ClosedError("this object was closed; make a new one")
        return self._lending

    @asynccontextmanager
    async def acquired(self, purpose: str = "several statements") -> AsyncIterator[Connection]:
        """Lend a connection of the pool. Errors of the body pass as they are."""
        await self.opened()
        async with self._lent_from().lent(purpose) as connection:
            yield connection

    @asynccontextmanager
    async def unchecked(self, connection: Connection | None = None) -> AsyncIterator[Connection]:
        """Lend a connection also where ``on_open`` refuses the database: the caller's, a pool's, or one of its own."""
        lending = self._known_lending()
        if connection is not None:
            yield connection
        elif lending is not None:
            async with lending.lent("health") as own:
                yield own
        else:
            async with self._single() as single:
                yield single

    def _known_lending(self) -> Lending | None:
        """Return what lends connections, also before opening where the pool is the caller's."""
        return self._lending or (None if self._borrowed is None else self._lending_of(self._borrowed))

    def _lending_of(self, pool: Pool) -> Lending:
        borrowed, name = pool is self._borrowed, pool_name(self.described)
        return Lending(pool, borrowed=borrowed, acquire_timeout=self._options.acquire_timeout, name=name)

    @asynccontextmanager
    async def apart(self, *, for_good: bool = False) -> AsyncIterator[Connection]:
        """Lend a connection for long work in a session of its own: a new one, or one of a borrowed pool.

        Raises ConfigurationError if that leads to a pooler, or would keep one of a borrowed pool ``for_good``.
        """
        await self.opened()
        lending, direct = self._lent_from(), self._find_direct_dsn()
        borrows = lending.borrowed and direct is None
        if borrows and for_good:
            raise ConfigurationError("a borrowed pool has no connection to spare; give migration_dsn=")
        async with lending.lent("long work") if borrows else self._single(direct) as connection:
            with translated():
                if not await is_direct(connection):
                    raise ConfigurationError(
                        "this needs a session of the server's own, and there is a pooler in between: name the server "
                        "itself in migration_dsn= or POSTGRES_MEMORY_MIGRATION_DSN"
                    )
            yield connection

    @asynccontextmanager
    async def _single(self, dsn: Dsn | None = None) -> AsyncIterator[Connection]:
        single = await self._connect(dsn)
        try:
            yield single
        finally:
            with suppress(*DRIVER_ERRORS):
                await single.close()

    async def _connect(self, dsn: Dsn | None) -> asyncpg.Connection[asyncpg.Record]:
        self.refuse_if_closed()
        dsn = dsn or await self._find_dsn()
        with in_time(), suppress(ValueError), certified():
            return await connect(dsn, timeout=self._options.connect_timeout)
        raise unreadable(dsn)

    def pool_counts(self) -> PoolCounts | None:
        """Return how many connections the pool has, if it is open."""
        lending = self._known_lending()
        return None if lending is None else lending.counts()

    @asynccontextmanager
    async def transaction(
        self,
        connection: Connection | None = None,
        level: int = 0,
        *,
        namespace: str | None = None,
        settings: LocalSettings | None = None,
        left: list[str] | None = None,
        guard: str | None = None,
    ) -> AsyncIterator[Connection]:
        """Run the body in a transaction on a connection of the pool, or on the caller's ``connection``.

        Where the caller is in a transaction, it is a savepoint; ``level`` counts those around it. Errors of the body
        pass as they are. ``settings`` hold for the body, and take no round trip more where it is a transaction. On a
        connection of the pool a transaction that writes says the ``namespace`` it writes in: if the answer to its
        COMMIT is lost, it is found out whether it committed, and OutcomeUnknownError raised only where no server
        answers in time. The token by which that is found out is noted in ``left``. Where ``guard`` fails, none begins.
        """
        opened = await self.opened()
        if connection is not None:
            begin, end, rollback = await within(connection, level, settings)
            try:
                async with ended(connection, end, rollback):
                    await executed(connection, begin)
                    yield connection
            except CommitLostError as lost:
                raise unknown(lost) from lost
            return
        token = self.tokens.new()
        if left is not None:
            left.append(token)
        commit = "COMMIT" if namespace is None else opened.commit(namespace, token)
        if settings is not None:  # they may take the right to leave a token
            commit = f"SET LOCAL ROLE NONE; {commit}"
        lending, begin = self._lent_from(), beginning("BEGIN", settings)
        begin = begin if guard is None else f"{begin}; {guard}"
        with harmless():
            own = await persistent(lambda: self._begun(lending, begin), self.retry_for)
        try:
            try:
                async with ended(own, commit, "ROLLBACK"):
                    yield own
            finally:
                await lending.release(own)
                if namespace is not None:
                    self._wrote()
        except CommitLostError as lost:
            if namespace is not None and await self.changed_under(namespace, token, lost) is None:
                raise DatabaseUnavailableError(f"the transaction was rolled back: {lost}") from lost
        except DatabaseError as error:
            error.nothing_written = True  # whatever it was, it was rolled back
            await self._forget_if_demoted(error)
            raise

    async def _begun(self, lending: Lending, begin: str) -> PoolConnectionProxy[asyncpg.Record]:
        """Take a connection in a new transaction."""
        with translated():
            connection = await lending.acquire("a transaction")
        try:
            await executed(connection, begin)
        except BaseException:
            try:
                await rolled_back(connection, "ROLLBACK")
            finally:
                await lending.release(connection)
            raise
        return connection

    async def changed_under(self, namespace: str, token: str, lost: DatabaseError) -> int | None:
        """Return how many rows were changed by the write that leaves ``token``; None if it never happens.

        Raises OutcomeUnknownError if no server answers in time, or too late for what is there to tell.
        """
        claim = (await self.opened()).claim
        mark = {"namespace": namespace, "token": token}
        try:
            (row,) = await persistent(lambda: self.fetch(claim, mark), self.retry_for, passes_or_is_late)
        except DatabaseError as error:
            raise unknown(lost) from error
        return changed_by(row)
