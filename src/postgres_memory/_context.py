"""What every verb needs to know: which database, which namespace, within which limits, in whose transaction."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ._driver_errors import harmless
from ._principal import RESTORING, TRUSTED
from ._retrying import passes, passes_or_is_late, persistent, unknown
from ._sql.feed import FEED_IS_ON
from ._sql.policies import PRINCIPAL, SYSTEM
from ._tokens import Written, changed_by
from ._transactions import LocalSettings, Scope
from .embedding.fields import USUAL, EmbeddedFields
from .errors import DatabaseError, DatabaseUnavailableError, OutcomeUnknownError, UsageError

if TYPE_CHECKING:
    from asyncpg import Record

    from ._access import Toucher
    from ._database import Database
    from ._pooling import Connection
    from ._principal import Principal
    from ._sql.compile import Catalog, Statement, StatementBuilder
    from ._validation import Limits
    from ._writing.coalescing import Coalescer
    from .embedding.spaces import SpaceEmbedder
    from .ranking import Ranking

ResultT = TypeVar("ResultT")

#: How many are deleted at a time: twice as many as are left between.
TOKENS_AT_ONCE = 1_000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Context:
    """The surroundings of one call.

    ``connection`` is the one of the transaction that the call joins: the caller's, or that of our block ``scope``;
    ``level`` says how many transactions and savepoints of this call are around.
    ``toucher`` counts accesses, where they are counted; ``coalescer`` has writes go together. ``thread_field`` and
    ``subject_field`` are keys of metadata. ``embedder`` embeds the ``fields`` of memories beside the hash embedding;
    with ``embed_in_transactions`` also in the caller's, which waits for it. ``principal`` is who is asking, None for
    the trusted backend; ``acting`` says that the transaction of ``connection`` is bound to it already. A transaction is
    ``quiet`` if the namespace had no change feed when it began.
    """

    database: Database[Catalog]
    namespace: str
    limits: Limits
    session_ttl: timedelta | None = None
    idempotency_ttl: timedelta = timedelta(hours=24)
    connection: Connection | None = None
    scope: Scope | None = None
    level: int = 0
    toucher: Toucher | None = None
    coalescer: Coalescer | None = None
    thread_field: str | None = None
    subject_field: str | None = None
    ranking: Ranking | None = None
    embedder: SpaceEmbedder | None = None
    embed_in_transactions: bool = False
    fields: EmbeddedFields = USUAL
    from_replica: bool = False
    principal: Principal | None = None
    acting: bool = False
    quiet: bool = False

    @property
    def owner(self) -> str:
        """Whose a memory is if nobody says."""
        return SYSTEM if self.principal is None else self.principal.name

    def reading(self, connection: Connection | None) -> Context:
        """Return this context on the caller's ``connection``, or where there is none, for reading from a replica.

        A principal reads in transactions that are bound to it, which are on the primary.
        """
        if connection is None and self.principal is None and self.database.replica is not None:
            return replace(self, from_replica=True)
        return self.on(connection)

    def on(self, connection: Connection | None) -> Context:
        """Return this context on the caller's ``connection``, if there is one."""
        return self if connection is None else replace(self, connection=connection, scope=None, acting=False)

    def refuse_principal(self, what: str) -> None:
        """Raise UsageError where a principal asks for ``what`` concerns more than what it may read and write."""
        if self.principal is not None:
            raise UsageError(
                f"{what} is for the trusted backend, since it concerns more than a principal may read and write"
            )

    async def fetch(
        self,
        builder: StatementBuilder,
        parameters: Mapping[str, Any],
        *shape: Hashable,
        repeatable: bool = False,
    ) -> list[Record]:
        """Run the statement that ``builder`` builds for ``shape`` and return its rows.

        Outside of transactions, what passes is tried again: a read always; a write whose answer was lost only if it is
        ``repeatable``, by itself or in these ``parameters``, else OutcomeUnknownError is raised.
        """
        if self.scope is not None:
            async with self.scope.entered():
                return await replace(self, scope=None).fetch(builder, parameters, *shape)
        catalog = await self.database.opened()
        if self.principal is not None:
            statement = catalog.principals_statement(builder, *shape)
            if not self.acting:
                return await self.retried(
                    lambda inside: inside._run(statement, parameters), writes=statement.writes
                )
            return await self._run(statement, parameters, repeatable=repeatable)
        return await self._unless_fed(
            catalog, builder, shape, lambda statement: self._run(statement, parameters, repeatable=repeatable)
        )

    async def _unless_fed(
        self,
        catalog: Catalog,
        builder: StatementBuilder,
        shape: tuple[Hashable, ...],
        run: Callable[[Statement], Awaitable[ResultT]],
    ) -> ResultT:
        """Run the statement that writes no events, and where that is refused, or would end a transaction, the other."""
        if self.connection is None and self.namespace not in self.database.fed:
            try:
                return await run(catalog.quiet_statement(builder, *shape))
            except DatabaseError as error:
                self._learn_of_feed(error)
        return await run(catalog.statement(builder, *shape))

    def _learn_of_feed(self, error: DatabaseError) -> None:
        """Note that the namespace has a change feed, if that is what ``error`` says; else raise it."""
        if error.sqlstate != FEED_IS_ON:
            raise error
        self.database.fed.add(self.namespace)

    async def _run(
        self, statement: Statement, parameters: Mapping[str, Any], *, repeatable: bool = False
    ) -> list[Record]:
        if self.connection is not None:
            return await self.database.fetch(statement, parameters, self.connection)
        if statement.writes:
            return await self._written(statement, parameters, repeatable or statement.repeatable)
        if self.from_replica and self.database.replica is not None:
            rows = await self.database.replica.fetch(statement, parameters)
            if rows is not None:
                return rows
        return await self._read(statement, parameters)

    async def _read(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Record]:
        """Run a statement that only reads, again if what fails passes."""
        with harmless():
            return await persistent(
                lambda: self.database.fetch(statement, parameters), self.database.retry_for
            )

    async def _written(
        self, statement: Statement, parameters: Mapping[str, Any], repeatable: bool
    ) -> list[Record]:
        """Run a write that is a transaction of its own. One that must not happen twice is not sent twice."""
        lost: DatabaseError | None = None

        async def run() -> list[Record]:
            nonlocal lost
            try:
                return await self.database.fetch(statement, parameters)
            except DatabaseError as error:
                if not error.nothing_written:
                    lost = error
                    if not repeatable and isinstance(error, DatabaseUnavailableError):
                        raise unknown(error) from error
                raise

        try:
            return await persistent(run, self.database.retry_for, passes_or_is_late if repeatable else passes)
        except DatabaseError as error:
            if lost is None:
                raise
            if isinstance(error, DatabaseUnavailableError):
                raise unknown(error) from error
            error.nothing_written = False  # by an earlier attempt it may be, whatever this one says of itself
            raise

    async def once(
        self, builder: StatementBuilder, parameters: Mapping[str, Any], *shape: Hashable
    ) -> list[Record] | Written:
        """Run a statement that writes its ``token`` beside what it does, and do it once, whatever is lost.

        Returns its rows; or, where an attempt whose answer was lost turns out to have done it, how many it changed.
        """
        if self.connection is not None or self.scope is not None or self.principal is not None:
            return await self.fetch(builder, {**parameters, "token": None}, *shape)
        return await self._unless_fed(
            await self.database.opened(), builder, shape, lambda statement: self._once(statement, parameters)
        )

    async def _once(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Record] | Written:
        token = self.database.tokens.new()
        lost: DatabaseError | None = None

        async def run() -> list[Record] | Written:
            nonlocal lost
            if lost is not None:
                return await self._unless_written(statement, parameters, token)
            try:
                return await self.database.fetch(statement, {**parameters, "token": token})
            except DatabaseError as error:
                lost = None if error.nothing_written else error
                raise

        try:
            done = await persistent(run, self.database.retry_for)
        except DatabaseError as error:
            if lost is None:
                raise
            done = await self._found_out(token, lost, error)
        await self._tidy()
        return done

    async def _found_out(self, token: str, lost: DatabaseError, error: DatabaseError) -> Written:
        """Return what the attempt did whose answer was ``lost``; raise ``error`` if it did nothing."""
        if isinstance(error, DatabaseUnavailableError | OutcomeUnknownError):
            raise unknown(error) from error  # it was tried for long enough
        changed = await self.database.changed_under(self.namespace, token, lost)
        if changed is None:
            error.nothing_written = True
            raise error
        return Written(changed)

    async def _tidy(self) -> None:
        """Now and then, delete some of the tokens that nobody asks for any more."""
        if not self.database.is_time_to_tidy():
            return
        from ._sql.write_tokens import purge_tokens

        try:
            await replace(self, principal=None).fetch(
                purge_tokens, {"namespace": self.namespace, "limit": TOKENS_AT_ONCE}
            )
        except DatabaseError as error:
            _logger.warning("old write tokens were not deleted: %s", error)

    async def _unless_written(
        self, statement: Statement, parameters: Mapping[str, Any], token: str
    ) -> list[Record] | Written:
        """Take the token, so that the lost attempt can commit no more, and run the statement; or say that it did."""
        catalog = await self.database.opened()
        mark = {"namespace": self.namespace, "token": token}
        async with self.database.transaction(namespace=self.namespace) as connection:
            (row,) = await self.database.fetch(catalog.claim, mark, connection)
            changed = changed_by(row)
            if changed is None:
                return await self.database.fetch(statement, {**parameters, "token": None}, connection)
            return Written(changed)

    async def candidates(
        self, builder: StatementBuilder, parameters: Mapping[str, Any], *shape: Hashable
    ) -> list[Record]:
        """Run a statement that ranks, over what who is asking may read, and return its rows.

        For a principal the trusted backend runs it; what is shown of the rows is to be read again.
        """
        if self.scope is not None:
            async with self.scope.entered():
                return await replace(self, scope=None).candidates(builder, parameters, *shape)
        if self.principal is None:
            return await self.fetch(builder, parameters, *shape)
        catalog = await self._trusted_catalog()
        statement = catalog.ranking_statement(builder, *shape)
        async with self.trusted() as trusted:
            return await trusted._run(statement, {**parameters, PRINCIPAL: self.principal.name})

    async def _trusted_catalog(self) -> Catalog:
        catalog = await self.database.opened()
        if catalog.bound:
            raise UsageError(
                "as_principal() is for the trusted backend: a login with the rights of the owner of the tables; any "
                "other is its own principal, whoever it says it is"
            )
        return catalog

    async def ready(self) -> None:
        """Raise what any statement would: after close, after the block, where there is no schema."""
        if self.scope is not None:
            async with self.scope.entered():
                pass
        await self.database.opened()

    async def copy(self, table: str, columns: Sequence[str], data: bytes) -> None:
        """Load rows in the binary COPY format; only inside a transaction."""
        assert self.connection is not None
        catalog = await self.database.opened()
        await self.database.copy(self.connection, (catalog.tables.schema, table), columns, data)

    async def touch(self, ids: Collection[str]) -> None:
        """Count an access to each of these memories."""
        if self.toucher is not None and ids:
            await self.toucher.touch(ids, in_transaction=self.connection is not None)

    async def retried(
        self, work: Callable[[Context], Awaitable[ResultT]], *, writes: bool = True, quiet: bool = False
    ) -> ResultT:
        """Return what ``work`` returns inside a `transaction`, which runs again where what ended it passes.

        Inside a transaction of the caller's, which is over then, it runs once. With ``quiet``, a transaction of our own
        is so where there is no change feed.
        """

        async def run() -> ResultT:
            async with self.transaction(writes=writes, quiet=quiet) as inside:
                return await work(inside)

        own = self.connection is None and self.scope is None and self.principal is None
        quiet = quiet and own and self.namespace not in self.database.fed
        if self.connection is not None or self.scope is not None:
            return await run()
        try:
            result = await persistent(run, self.database.retry_for)
        except DatabaseError as error:
            self._learn_of_feed(error)
            quiet = False
            result = await persistent(run, self.database.retry_for)
        if writes:
            await self._tidy()
        return result

    @asynccontextmanager
    async def transaction(self, *, writes: bool = True, quiet: bool = False) -> AsyncIterator[Context]:
        """Give this context inside a transaction of its own, or a savepoint of the one it is in.

        With ``quiet``, it does not begin where there is a change feed.
        """
        if self.scope is not None:
            async with self.scope.entered(), replace(self, scope=None).transaction(writes=writes) as inside:
                yield inside
            return
        if self.principal is not None and not self.acting:
            async with self._bound(self.principal, writes=writes) as inside:
                yield inside
            return
        lent = self.database.transaction(
            self.connection,
            self.level,
            namespace=self.namespace if writes else None,
            guard=(await self.database.opened()).guard(self.namespace) if quiet else None,
        )
        async with lent as connection:
            yield replace(self, connection=connection, level=self.level + 1, quiet=quiet)

    @asynccontextmanager
    async def _bound(self, principal: Principal, *, writes: bool) -> AsyncIterator[Context]:
        """Give this context in a transaction that is bound to its principal."""
        await self._trusted_catalog()
        settings = LocalSettings(principal.settings, RESTORING)
        namespace = self.namespace if writes else None
        async with AsyncExitStack() as stack:
            transaction = self.database.transaction(
                self.connection, self.level, namespace=namespace, settings=settings
            )
            try:
                connection = await stack.enter_async_context(transaction)
            except DatabaseError as error:
                raise principal.explained(error) from error
            yield replace(self, connection=connection, level=self.level + 1, acting=True)

    @asynccontextmanager
    async def trusted(self) -> AsyncIterator[Context]:
        """Give this context as the trusted backend's, for what a principal may not do and does not see."""
        if not self.acting:
            yield replace(self, principal=None)
            return
        if self.scope is not None:
            async with self.scope.entered(), replace(self, scope=None).trusted() as inside:
                yield inside
            return
        settings = LocalSettings(TRUSTED, RESTORING)
        async with self.database.transaction(self.connection, self.level, settings=settings) as connection:
            inside = replace(self, connection=connection, level=self.level + 1)
            yield replace(inside, principal=None, acting=False)
