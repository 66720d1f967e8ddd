"""What every verb needs to know: which database, which namespace, within which limits, in whose transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ._database import again_if_a_victim
from .errors import UsageError

if TYPE_CHECKING:
    from asyncpg import Record

    from ._access import Toucher
    from ._database import Connection, Database
    from ._sql.compile import Catalog, StatementBuilder
    from .embedding.spaces import SpaceEmbedder
    from .ranking import Ranking

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes above which input is refused."""

    content_bytes: int


@dataclass(slots=True)
class Scope:
    """The life of a transaction block: one statement at a time, and none after its end."""

    over: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Wait for one's turn, if the block still runs."""
        async with self.turn:
            if self.over:
                raise UsageError(
                    "this transaction is over; the verbs of memory.transaction() work inside its block"
                )
            yield

    async def end(self) -> None:
        """Let the statement under way finish and refuse those that follow."""
        self.over = True
        async with self.turn:
            pass


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of one call.

    ``connection`` is the one of the transaction that the call joins: the caller's, or that of our block ``scope``;
    ``level`` says how many transactions and savepoints of this call are around.
    ``toucher`` counts accesses, where they are counted. ``thread_field`` and ``subject_field`` are keys of metadata.
    ``embedder`` embeds contents beside the hash embedding; with ``embed_in_transactions`` also in the caller's, which
    waits for it.
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
    thread_field: str | None = None
    subject_field: str | None = None
    ranking: Ranking | None = None
    embedder: SpaceEmbedder | None = None
    embed_in_transactions: bool = False

    def on(self, connection: Connection | None) -> Context:
        """Return this context on the caller's ``connection``, if there is one."""
        return self if connection is None else replace(self, connection=connection, scope=None)

    async def fetch(
        self, builder: StatementBuilder, parameters: Mapping[str, Any], *shape: Hashable
    ) -> list[Record]:
        """Run the statement that ``builder`` builds for ``shape`` and return its rows."""
        if self.scope is not None:
            async with self.scope.entered():
                return await replace(self, scope=None).fetch(builder, parameters, *shape)
        catalog = await self.database.opened()
        run = partial(self.database.fetch, catalog.statement(builder, *shape), parameters, self.connection)
        return await (again_if_a_victim(run) if self.connection is None else run())

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

    async def retried(self, work: Callable[[Context], Awaitable[ResultT]]) -> ResultT:
        """Return what ``work`` returns inside a `transaction`, which runs again where it was a deadlock's victim.

        Inside a transaction of the caller's, which is over then, it runs once.
        """

        async def run() -> ResultT:
            async with self.transaction() as inside:
                return await work(inside)

        return await (again_if_a_victim(run) if self.connection is None else run())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Context]:
        """Give this context inside a transaction of its own, or a savepoint of the one it is in."""
        if self.scope is not None:
            async with self.scope.entered(), replace(self, scope=None).transaction() as inside:
                yield inside
            return
        async with self.database.transaction(self.connection, self.level) as connection:
            yield replace(self, connection=connection, level=self.level + 1)
