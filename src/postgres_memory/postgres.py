"""PostgresMemory, the facade: the one place where the parts are put together."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, get_args

from ._access import AccessTracking, Toucher
from ._connecting import RETRY_FOR, connect
from ._context import Context
from ._pooling import PoolOptions
from ._principal import Principal, check_principal
from ._sql.policies import PRINCIPAL_ROLE
from ._telemetry import observed, observed_block, observed_verbs
from ._transactions import Scope
from ._validation import (
    MAX_CONTENT_BYTES,
    Limits,
    check_content_limit,
    check_duration,
    check_namespace,
    check_seconds,
    check_text,
)
from ._writing.coalescing import Coalescer
from ._writing.touch import write_touches
from .config import parse_dsn
from .embedding.fields import check_fields
from .embedding.spaces import space_embedder
from .errors import DatabaseTimeoutError, InvalidValueError, UsageError
from .verbs.bulk_verbs import BulkVerbs
from .verbs.change_verbs import ChangeVerbs
from .verbs.lifecycle_verbs import LifecycleVerbs
from .verbs.listing_verbs import ListingVerbs
from .verbs.operation_verbs import OperationVerbs
from .verbs.protocol_verbs import ProtocolVerbs
from .verbs.recall_verbs import RecallVerbs
from .verbs.record_verbs import RecordVerbs
from .verbs.relation_verbs import RelationVerbs
from .verbs.space_verbs import SpaceVerbs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from types import TracebackType

    from ._pooling import Pool
    from .embedding.accepting import AnyEmbedder
    from .embedding.protocol import Distance
    from .listing_records import Isolation
    from .ranking import Preset, Ranking
    from .sync import SyncPostgresMemory

#: The tasks that are inside a block of `transaction`, one for each block.
Blocks = list["asyncio.Task[Any] | None"]


@observed_verbs
class Verbs(
    ProtocolVerbs,
    RecallVerbs,
    RecordVerbs,
    RelationVerbs,
    LifecycleVerbs,
    ListingVerbs,
    BulkVerbs,
    SpaceVerbs,
    OperationVerbs,
    ChangeVerbs,
):
    """All verbs, on whatever context the subclass gives them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def namespace(self) -> str:
        """The namespace this object reads and writes."""
        return self._context.namespace


class MemoryTransaction(Verbs):
    """The verbs inside one transaction; what `PostgresMemory.transaction` gives."""


class MemoryWithin(Verbs):
    """The verbs, each call of which must end in time; what `PostgresMemory.within` gives."""

    def __init__(self, context: Context, seconds: float) -> None:
        super().__init__(context)
        self._seconds = seconds


def _in_time(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(verb)
    async def limited(self: MemoryWithin, *args: Any, **kwargs: Any) -> Any:
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await verb(self, *args, **kwargs)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DatabaseTimeoutError(
                f"{verb.__name__}() did not end within {self._seconds:g} s; if it writes, its outcome is unknown",
                nothing_written=False,
            ) from error

    return limited


for _name, _verb in inspect.getmembers(Verbs, inspect.iscoroutinefunction):
    if not _name.startswith("_"):
        # A call's span ends with what its caller gets, so it is around the time limit.
        setattr(MemoryWithin, _name, observed(_in_time(inspect.unwrap(_verb))))


class PrincipalMemory(Verbs):
    """The memory as a principal sees it, and limited to what it may read and write; see `PostgresMemory.as_principal`.

    It has no connections of its own and lives as long as the memory it came from.
    """

    def __init__(self, context: Context, blocks: Blocks) -> None:
        super().__init__(context)
        self._blocks = blocks

    def __repr__(self) -> str:
        return f"PrincipalMemory({self.principal!r}, namespace={self.namespace!r})"

    @property
    def principal(self) -> str:
        """Who is asking."""
        return self._context.owner

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemoryTransaction]:
        """Open a transaction and give the same verbs inside it, as `PostgresMemory.transaction` does."""
        async with _block(self._context, self._blocks) as inside:
            yield inside


@observed_verbs
class PostgresMemory(Verbs):
    """The memory of one namespace, in PostgreSQL.

    ``dsn`` is a ``postgresql://`` URL, or an asyncpg pool, which is borrowed and never closed. Without one, the
    environment variables ``POSTGRES_MEMORY_DSN`` and ``DATABASE_URL`` are asked, then the embedded PostgreSQL of the
    extra ``embedded`` is started. ``namespace`` is any non-empty string of at most 255 bytes; ``schema`` is where the
    tables are. A content of more than ``max_content_bytes`` bytes of UTF-8 is refused (1 MiB unless said otherwise,
    16 MiB at most). SESSION memories expire ``session_ttl`` after they are added, if they do not say when;
    idempotency keys are remembered for ``idempotency_ttl``.

    A pool made here holds ``pool_min_size`` to ``pool_max_size`` connections. Times are in seconds: a connection is
    made within ``connect_timeout``, one of the pool is waited for at most ``acquire_timeout`` (PoolExhaustedError then
    says who holds them), and a statement is given up after ``statement_timeout``, if there is one, when what became of
    a write is found out; `within` limits a whole call. What passes, such as a lost connection, a failover or a
    deadlock, is tried again for at most ``retry_for`` seconds, 0 for not at all: a write never twice, since it leaves
    a mark by which a lost answer is found out. If that cannot be done in time, OutcomeUnknownError says so. Nothing is
    tried again inside a transaction of the caller's.

    Where ``dsn`` leads to a pooler such as PgBouncer, ``migration_dsn`` leads to the server itself: `migrate`,
    `create_index` and `drop_index` connect there. Without one, the variable ``POSTGRES_MEMORY_MIGRATION_DSN`` is asked,
    and then they go where everything goes.

    ``access_tracking`` says how ``last_accessed`` and ``access_count`` follow `get`, `get_many` and `search`:
    ``"batched"`` gathers accesses and writes them together every few seconds and at `close`, ``"inline"`` writes them
    before the call returns, ``"off"`` not at all.

    ``thread_field`` and ``subject_field`` name keys of metadata. A memory that is stored without a ``thread_id``
    belongs to the thread that its metadata names; a memory is by the subject that its metadata names, which `recall`
    prefers when the query names one. ``ranking`` is the one that the protocol's `search` uses: the exact order of hash
    embeddings, or with ``"hybrid"`` that of `recall`.

    ``embedder`` makes vectors of contents and queries beside the hash embedding, which is always there. It is an
    `Embedder`; a function from a list of str to a list of vectors, sync or async; or an object with LangChain's
    ``embed_documents`` or sentence-transformers' ``encode``. What is sync runs on a thread. ``space`` names the
    embedding space its vectors live in, the embedder's own ``name`` unless said otherwise; ``distance`` is how they are
    compared.
    A content is embedded before a connection is taken. If the embedder fails, the memory is stored nevertheless, a
    warning is logged, and `embed_pending` embeds it later; so it is inside a transaction of the caller's, which would
    have to wait for the embedder, unless ``embed_in_transactions`` is True.
    ``embedded_fields`` names what is embedded of each memory, of which the nearest counts in `recall`: ``"content"``,
    and paths to strings of its metadata, such as ``"metadata.summary"`` or, each of an array, ``"metadata.facts[*]"``.

    With ``read_dsn``, which may name several servers, `search`, `recall`, `get`, `get_many`, `find`, `count`,
    `history`, `relations`, `related` and `contradictions` read from a replica, outside of transactions, once it has
    all that this object wrote before, and from the primary until then, and while replicas are gone or replayed nothing
    for ``max_replica_lag`` seconds of what they received. What is written on a ``connection`` of the caller's is not
    known to be committed, so not waited for.

    ``principal_role`` is the database role that `as_principal` acts as; `migrate` makes it, or says how.

    Nothing is opened until the first call, or `open`, or ``async with``. Calls may run concurrently.

    Raises InvalidTypeError, InvalidValueError or ConfigurationError for arguments that cannot be.
    """

    def __init__(
        self,
        dsn: str | Pool | None = None,
        *,
        namespace: str = "default",
        schema: str = "memory",
        max_content_bytes: int = MAX_CONTENT_BYTES,
        session_ttl: timedelta | None = None,
        idempotency_ttl: timedelta = timedelta(hours=24),
        access_tracking: AccessTracking = "batched",
        thread_field: str | None = None,
        subject_field: str | None = None,
        ranking: Ranking | Preset = "hash",
        embedder: AnyEmbedder | None = None,
        space: str | None = None,
        distance: Distance = "cosine",
        embed_in_transactions: bool = False,
        embedded_fields: Sequence[str] = ("content",),
        pool_min_size: int = 1,
        pool_max_size: int = 10,
        connect_timeout: float = 10.0,
        acquire_timeout: float = 30.0,
        statement_timeout: float | None = None,
        retry_for: float = RETRY_FOR,
        read_dsn: str | None = None,
        max_replica_lag: float = 10.0,
        migration_dsn: str | None = None,
        principal_role: str = PRINCIPAL_ROLE,
    ) -> None:
        options = PoolOptions(
            pool_min_size, pool_max_size, connect_timeout, acquire_timeout, statement_timeout
        )
        retrying = check_seconds(retry_for, "retry_for", or_none_at_all=True)
        self._connecting = connect(dsn, schema, options, retrying, migration_dsn, principal_role)
        check_seconds(max_replica_lag, "max_replica_lag")
        if read_dsn is not None:
            from ._replica import Replica

            reads = connect(parse_dsn(read_dsn, "read_dsn").value, schema, options)
            database = self._connecting.database
            database.replica = Replica(reads.database, database, max_replica_lag)
        limits = Limits(content_bytes=check_content_limit(max_content_bytes))
        context = Context(
            self._connecting.database,
            check_namespace(namespace),
            limits,
            session_ttl=None if session_ttl is None else check_duration(session_ttl, "session_ttl"),
            idempotency_ttl=check_duration(idempotency_ttl, "idempotency_ttl"),
            thread_field=None if thread_field is None else check_text(thread_field, "thread_field"),
            subject_field=None if subject_field is None else check_text(subject_field, "subject_field"),
            ranking=_ranking_of_search(ranking),
            embedder=space_embedder(embedder, space, distance),
            embed_in_transactions=embed_in_transactions,
            fields=check_fields(embedded_fields),
        )
        self._blocks: Blocks = []
        toucher = _toucher(context, access_tracking)
        super().__init__(replace(context, toucher=toucher, coalescer=Coalescer()))

    def __repr__(self) -> str:
        return f"PostgresMemory({self._connecting.source}, namespace={self.namespace!r})"

    def as_principal(self, name: str) -> PrincipalMemory:
        """Return this memory as the principal ``name`` sees it, limited to what that may read and write.

        A principal reads the memories it owns, those that list it among their readers or writers, and those that list
        ``"*"``; it changes, deletes and relates what it owns or is a writer of. What it adds is its own, under an id of
        the library's making; only the owner of a memory changes its permissions. What it may not read is not there for
        it: not found, not counted, not walked over. The database sees to all this, by row-level security. Verbs that
        concern a namespace or a database as a whole raise UsageError.

        A principal is anybody the application says it is: see the threat model in docs/explanation/access-control.md.
        Nothing is asked of the database here. Raises InvalidTypeError or InvalidValueError for what is no name: one is
        a key of at most 255 bytes, and neither ``"system"`` nor ``"*"``.
        """
        principal = Principal(check_principal(name), self.namespace, self._connecting.principal_role)
        return PrincipalMemory(replace(self._context, principal=principal), self._blocks)

    async def check_isolation(self, *, login: str | None = None) -> Isolation:
        """Try, on the database as it is, what a principal must not be able to do, and report what it could.

        Somebody's memories, relations, vectors, messages and keys are stored in a namespace that nobody has; other
        principals, nobody, and the same one in another namespace try to read, change, delete and add to them, readers
        and writers to do what is not theirs to do, and all of it is rolled back. The role of principals must be bound
        by policies. ``login`` is the DSN of a login that runs untrusted SQL: it is a problem if that one is, or in
        whatever way is a member of, a superuser, an owner of the tables or a role that policies do not bind, and if it
        can pass for somebody else.

        Raises a DatabaseError if the database cannot answer; what it finds wrong is in what it returns.
        """
        from ._recall.isolation import check_isolation

        role = self._connecting.principal_role
        if login is None:
            return await check_isolation(self._context, role, None)
        connecting = connect(login, self._connecting.schema, PoolOptions(0, 1), principal_role=role)
        try:
            context = replace(self._context, database=connecting.database)
            return await check_isolation(self._context, role, context)
        finally:
            await connecting.database.close()

    @property
    def sync(self) -> SyncPostgresMemory:
        """This memory for code without an event loop. Use one form or the other; closing either closes both."""
        from .sync import synchronous

        # setdefault is atomic: threads that ask at once get one object.
        form: SyncPostgresMemory = vars(self).setdefault("_sync", synchronous(self))
        return form

    async def open(self) -> None:
        """Connect and check the schema now rather than at the first call."""
        await self._context.database.opened()

    async def close(self) -> None:
        """Write the accesses that wait, and close what this object opened. Idempotent; a borrowed pool stays open.

        Calls and blocks of `transaction` under way are waited for. Raises UsageError inside such a block, which would
        wait for itself.
        """
        if asyncio.current_task() in self._blocks:
            raise UsageError(
                "close() inside a block of transaction() would wait for itself; leave the block first"
            )
        try:
            for closing in (self._context.coalescer, self._context.toucher):
                if closing is not None:
                    await closing.close()
        finally:
            await self._context.database.close()

    def within(self, seconds: float) -> MemoryWithin:
        """Give the same verbs, each call of which raises DatabaseTimeoutError unless it ends within ``seconds``.

        That is the whole call, with embedding, waiting for a connection and trying again. What runs is cancelled; a
        write may have happened then.
        """
        return MemoryWithin(self._context, check_seconds(seconds, "seconds"))

    async def migrate(self, *, revision: str = "head") -> str:
        """Bring the schema to the newest revision, or to ``revision``, and return the number it is at then.

        A schema that is past ``revision`` stays as it is. Safe when several processes do it at once. Raises
        InvalidValueError for a revision that there is not, and MigrationError, which says what to do.
        """
        return await self._connecting.migrate(revision)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemoryTransaction]:
        """Open a transaction and give the same verbs inside it; an exception rolls all of them back.

        It commits when the block ends. If a statement inside failed, nothing can be committed any more: should its
        error not leave the block, a DatabaseError says so at the end. Calls inside run one after another, also when
        several tasks make them; after the block they raise UsageError.
        """
        async with _block(self._context, self._blocks) as inside:
            yield inside

    async def __aenter__(self) -> PostgresMemory:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@asynccontextmanager
async def _block(context: Context, blocks: Blocks) -> AsyncIterator[MemoryTransaction]:
    """Give the verbs inside a transaction of their own, until the block ends."""
    scope, task = Scope(), asyncio.current_task()
    with observed_block(context):
        async with context.transaction() as inside:
            blocks.append(task)
            try:
                yield MemoryTransaction(replace(inside, scope=scope, level=0))
            finally:
                blocks.remove(task)
                await scope.end()


def _ranking_of_search(ranking: Ranking | Preset) -> Ranking | None:
    if ranking == "hash":
        return None
    from .ranking import PRESETS, check_ranking

    chosen = check_ranking(ranking)
    return None if chosen == PRESETS["hash"] else chosen


def _toucher(context: Context, access_tracking: AccessTracking) -> Toucher | None:
    if access_tracking not in get_args(AccessTracking):
        raise InvalidValueError("access_tracking", "must be 'batched', 'inline' or 'off'")
    if access_tracking == "off":
        return None
    return Toucher(partial(write_touches, context), inline=access_tracking == "inline")
