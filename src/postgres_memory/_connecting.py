"""From what the caller named (a DSN, a pool, nothing) to an opened database with the schema this code needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ._database import Database
from ._pooling import PoolOptions
from ._sql.policies import PRINCIPAL_ROLE
from ._sql.schema_version import HEAD, check_revision
from ._telemetry import described
from .config import Dsn, check_schema, dsn_from_environment, migration_dsn_from_environment, parse_dsn
from .errors import ConfigurationError, InvalidTypeError, UsageError

if TYPE_CHECKING:
    from ._embedded import EmbeddedServer
    from ._pooling import Connection, Pool
    from ._sql.compile import Catalog


#: For how many seconds a call tries again what passes: longer than a failover takes.
RETRY_FOR = 15.0
#: The version of the server from which on it reads a key along an array in one pass.
_WALKS_ARRAYS = 17


@dataclass(slots=True, eq=False, repr=False)
class Connecting:
    """One way to the database. ``source`` describes it without a password.

    ``migration_dsn`` leads to the server itself, where ``dsn`` or ``pool`` lead to a pooler before it.
    """

    schema: str
    dsn: Dsn | None
    pool: Pool | None
    options: PoolOptions
    retry_for: float = RETRY_FOR
    migration_dsn: Dsn | None = None
    principal_role: str = PRINCIPAL_ROLE
    server: EmbeddedServer | None = None
    database: Database[Catalog] = field(init=False)

    def __post_init__(self) -> None:
        self.database = Database(
            pool=self.pool,
            find_dsn=self.find_dsn,
            find_direct_dsn=self.find_direct_dsn,
            on_open=self._check_schema,
            on_close=self._stop_server,
            options=self.options,
            retry_for=self.retry_for,
        )

    @property
    def source(self) -> str:
        """What is shown of it: a DSN without its password, or what kind of thing it is."""
        if self.pool is not None:
            return "a borrowed pool"
        return "no DSN" if self.dsn is None else repr(self.dsn.masked)

    async def find_dsn(self) -> Dsn:
        """Return the DSN given, or the environment's, or that of the embedded server, started and migrated."""
        if self.dsn is None:
            self.dsn = dsn_from_environment()
        if self.dsn is None:
            dsn = await self._start_server()
            await self._migrate(dsn)
            self.dsn = dsn
        return self.dsn

    def find_direct_dsn(self) -> Dsn | None:
        """Return the DSN for migrations that was given, or the environment's, if either names one."""
        return self.migration_dsn or migration_dsn_from_environment()

    async def _start_server(self) -> Dsn:
        from ._embedded import EmbeddedServer, binaries

        try:
            binaries()
        except ConfigurationError as error:
            raise ConfigurationError(
                "no database: pass a DSN, or set POSTGRES_MEMORY_DSN or DATABASE_URL, or install the embedded "
                f"PostgreSQL ({error})"
            ) from error
        if self.server is None:
            self.server = EmbeddedServer()
        return Dsn(await self.server.start())

    async def _stop_server(self) -> None:
        if self.server is not None:
            await self.server.stop()

    async def migrate(self, revision: str) -> str:
        """Migrate the database that `find_direct_dsn`, or else `find_dsn` names, on a connection of its own."""
        check_revision(revision)
        self.database.refuse_if_closed()
        direct = self.find_direct_dsn()
        if self.pool is not None and direct is None:
            raise UsageError(
                "migrate() needs a DSN of its own: migrating on a borrowed pool would hold one of its connections; "
                "give migration_dsn=, or use PostgresMemory(dsn).migrate() or the command postgres-memory migrate"
            )
        # Not by `find_dsn`, which would migrate the embedded server to the newest first.
        named = direct or self.dsn or dsn_from_environment()
        return await self._migrate(named or await self._start_server(), revision)

    async def revision(self) -> str | None:
        """Return the revision that the schema is at, None where it is not there; nothing is changed or made."""
        from ._embedded import EmbeddedServer
        from .migrations import revision_of

        named = self.find_direct_dsn() or self.dsn or dsn_from_environment()
        if named is None:
            if not EmbeddedServer().is_made:
                return None
            named = await self._start_server()
        return await revision_of(named, self.schema)

    async def _migrate(self, dsn: Dsn, revision: str = HEAD) -> str:
        from .migrations import migrate

        return await migrate(dsn, schema=self.schema, principal_role=self.principal_role, revision=revision)

    async def _check_schema(self, connection: Connection) -> Catalog:
        from ._sql.compile import catalog
        from .migrations import check_schema_revision

        # Private to asyncpg, and looked at gently: it spares asking the server for its database's name.
        name = getattr(getattr(connection, "_params", None), "database", None)
        self.database.described = described(name, self.schema, None if self.dsn is None else self.dsn.server)
        known = await check_schema_revision(connection, self.schema)
        return catalog(
            self.schema, *known, walks_arrays=connection.get_server_version().major >= _WALKS_ARRAYS
        )


def connect(
    dsn: str | Pool | None,
    schema: str,
    options: PoolOptions,
    retry_for: float = RETRY_FOR,
    migration_dsn: str | None = None,
    principal_role: str = PRINCIPAL_ROLE,
) -> Connecting:
    """Return the way to what ``dsn`` names. Opens nothing."""
    check_schema(schema)
    # The first to be refused where both are the same, as on the command line, whose --dsn is what a person gave.
    database = parse_dsn(dsn) if isinstance(dsn, str) else None
    direct = None if migration_dsn is None else parse_dsn(migration_dsn, "migration_dsn")
    check_schema(principal_role, "principal_role")
    if dsn is None and dsn_from_environment() is None:
        # Here, since this is where the main thread most likely is; calls may be made in others.
        from ._embedded import stop_before_signals_end_this

        stop_before_signals_end_this()
    if dsn is None or isinstance(dsn, str):
        return Connecting(schema, database, None, options, retry_for, direct, principal_role)
    if not hasattr(dsn, "acquire") or not hasattr(dsn, "release"):
        raise InvalidTypeError("dsn", f"must be a str, an asyncpg pool or None, not {type(dsn).__name__}")
    return Connecting(schema, None, dsn, options, retry_for, direct, principal_role)
