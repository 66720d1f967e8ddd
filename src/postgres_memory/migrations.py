"""Bringing a database to the schema this code needs: the one way in for the API, the command line and Alembic's own.

The revisions are in the top-level folder ``alembic/`` and ship in the wheel as ``postgres_memory/_alembic``.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg

from ._driver_errors import translated
from ._migration_errors import explained
from ._migration_turn import HOLDS_LOCK, POLL, database_turn
from ._principal_role import missing_role_statements, preparing_role_statements
from ._route import connect
from ._sql.names import quote
from ._sql.policies import PRINCIPAL_ROLE
from ._sql.schema_version import HEAD, MINIMUM_SERVER, MINIMUM_VECTOR, REVISION, check_revision
from .config import (
    MIGRATION_DSN_VARIABLE,
    Dsn,
    check_schema,
    dsn_from_environment,
    migration_dsn_from_environment,
)
from .errors import (
    ConfigurationError,
    MigrationError,
    NotMigratedError,
    SchemaTooOldError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from alembic.config import Config
    from sqlalchemy import Connection as SyncConnection
    from sqlalchemy.ext.asyncio import AsyncConnection

    from ._pooling import Connection

_NO_SUCH_TABLE = ("42P01", "3F000")
_NO_RIGHT = "42501"
_SCHEMA_OF_EXTENSION = (
    "(SELECT nspname::text FROM pg_catalog.pg_extension JOIN pg_catalog.pg_namespace n ON n.oid = extnamespace "
    "WHERE extname"
)
#: A role that the migration of another database makes at the same moment.
_MADE_MEANWHILE = ("42710", "23505")

#: Where a connection says whose turn to migrate it is.
_TURN = "postgres_memory_turn"
_ALEMBIC = threading.Lock()


async def check_schema_revision(connection: Connection, schema: str) -> tuple[str, str | None, bool]:
    """Return the schemas of pgvector and, where there is one, pg_trgm, and whether policies take the login for itself.

    Raises NotMigratedError or SchemaTooOldError. A newer schema is fine: old code runs on it.
    """
    try:
        row = await connection.fetchrow(
            f"SELECT (SELECT max(version_num) FROM {quote(schema)}.alembic_version) AS revision, "
            f"{_SCHEMA_OF_EXTENSION} = 'vector') AS extension_schema, "
            f"{_SCHEMA_OF_EXTENSION} = 'pg_trgm') AS trigram_schema, "
            # As `principal()` sees it: who logs in is what counts, and BYPASSRLS makes nobody the owner.
            "(SELECT NOT pg_catalog.pg_has_role(SESSION_USER, c.relowner, 'USAGE') "
            "OR pg_catalog.row_security_active(c.oid) FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relname = 'memories') AS bound",
            schema,
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate not in _NO_SUCH_TABLE:
            raise
        row = None
    if row is None or row["revision"] is None or row["extension_schema"] is None:
        raise NotMigratedError(
            f"the database has no schema {schema!r} of postgres-memory; run: postgres-memory migrate",
            schema=schema,
            needed=REVISION,
        )
    if row["revision"] < REVISION:
        raise SchemaTooOldError(
            f"schema {schema!r} is at revision {row['revision']}, this version of postgres-memory needs {REVISION}; "
            "run: postgres-memory migrate",
            schema=schema,
            found=row["revision"],
            needed=REVISION,
        )
    return row["extension_schema"], row["trigram_schema"], bool(row["bound"])


async def revision_of(dsn: Dsn, schema: str) -> str | None:
    """Return the revision that ``schema`` is at in a database, None where it is not there. Nothing is changed."""
    from ._sql.listing import read_revision

    with translated():
        connection = await connect(dsn)
        try:
            revision: str | None = await connection.fetchval(read_revision(schema))
        except asyncpg.PostgresError as error:
            if error.sqlstate not in _NO_SUCH_TABLE:
                raise
            revision = None
        finally:
            await connection.close()
    return revision


async def migrate(
    dsn: Dsn | None = None,
    *,
    schema: str = "memory",
    extension_schema: str = "public",
    principal_role: str = PRINCIPAL_ROLE,
    revision: str = HEAD,
) -> str:
    """Upgrade ``schema`` to ``revision`` and return the revision it is at then.

    Any number of processes, threads and tasks may do this at once: one works, the others wait and find it done.
    Cancelling stops it: the revision under way is rolled back, those before it stay. ``extension_schema`` is where the
    extension is created if the database does not have it yet. ``principal_role`` is the role whose rights principals
    get; roles are of the whole server, so that one that is there is taken, and no downgrade drops it. Raises
    InvalidValueError for a revision that there is not, and MigrationError, which says what to do.
    """
    check_revision(revision)
    found = dsn or migration_dsn_from_environment() or dsn_from_environment()
    if found is None:
        raise ConfigurationError(
            f"no database to migrate: pass a DSN, or set {MIGRATION_DSN_VARIABLE}, POSTGRES_MEMORY_DSN or DATABASE_URL"
        )
    # Importing these takes up to a second, which the event loop must not lose.
    await asyncio.to_thread(_import)
    config = alembic_config()
    config.attributes["schema"] = check_schema(schema)
    config.attributes["extension_schema"] = check_schema(extension_schema, "extension_schema")
    config.attributes["principal_role"] = check_schema(principal_role, "principal_role")
    with explained(schema):
        async with migration_connection(found) as connection, _alembic_turn():
            await connection.run_sync(_upgrade, config, revision)
    return str(config.attributes["revision"])


def _import() -> None:
    for module in ("alembic.command", "sqlalchemy.ext.asyncio", "postgres_memory._sql.schema"):
        import_module(module)


def _upgrade(connection: SyncConnection, config: Config, revision: str) -> None:
    from alembic import command

    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def alembic_config() -> Config:
    """Return Alembic's configuration for the revisions of this installation."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    return config


def script_location() -> Path:
    """Return the folder of the revisions: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parent
    for folder in (package / "_alembic", package.parent.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise ConfigurationError(f"the migrations are missing from {package}; the installation is broken")


def quoted_names() -> tuple[str, str]:
    """Return, inside a revision, the quoted names of schema and extension schema, as ``op.execute`` takes them."""
    from alembic import op

    options = op.get_context().opts
    return escaped(quote(options["schema"])), escaped(quote(options["extension_schema"]))


def quoted_role() -> str:
    """Return, inside a revision, the quoted name of the role of principals, as ``op.execute`` takes it."""
    from alembic import op

    return escaped(quote(op.get_context().opts.get("principal_role", PRINCIPAL_ROLE)))


def escaped(sql: str) -> str:
    """Return ``sql`` as ``op.execute`` takes it: SQLAlchemy reads ``:name`` in a text as a parameter."""
    return sql.replace(":", r"\:")


@asynccontextmanager
async def migration_connection(dsn: Dsn) -> AsyncIterator[AsyncConnection]:
    """Lend a connection to migrate on, while no other process migrates the same database."""
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    engine = create_async_engine(
        "postgresql+asyncpg://",
        poolclass=NullPool,
        connect_args={
            "async_creator_fn": lambda **_: connect(dsn),
            # A pooler may give each transaction another server connection: no prepared statement is kept, and none
            # has the name of another client's.
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"postgres_memory_{uuid4().hex}",
        },
    )
    async with database_turn(dsn) as holder, engine.connect() as connection:
        await connection.run_sync(_begin_turn, holder)
        yield connection


def _begin_turn(connection: SyncConnection, holder: int) -> None:
    connection.info[_TURN] = holder
    check_turn(connection)
    connection.rollback()


def check_turn(connection: SyncConnection) -> None:
    """Raise MigrationError if the database is another process's to migrate by now: before anything, and each revision.

    A pooler may have ended the session that holds the lock, or sent it to another server.
    """
    if not connection.exec_driver_sql(HOLDS_LOCK, (connection.info[_TURN],)).scalar_one():
        raise MigrationError(
            "the lock under which one process migrates the database was not kept; if a pooler is in between, name the "
            f"server itself in migration_dsn= or {MIGRATION_DSN_VARIABLE}",
            schema="",
        )


@asynccontextmanager
async def _alembic_turn() -> AsyncIterator[None]:
    """Keep the process's other tasks and threads out of Alembic: ``alembic.op`` and ``alembic.context`` are global."""
    while True:
        if _ALEMBIC.acquire(blocking=False):
            break
        await asyncio.sleep(POLL)
    try:
        yield
    finally:
        _ALEMBIC.release()


def prepare_database(connection: SyncConnection, schema: str, extension_schema: str, role: str) -> None:
    """Make sure of the server's version and encoding, the schema, the extension and the role of principals."""
    _check_server(connection, schema)
    statements = _missing(connection, schema, extension_schema)
    statements += missing_role_statements(
        connection, schema, extension_schema_of(connection, extension_schema), role
    )
    for number, statement in enumerate(statements):
        _run_or_explain(connection, statement, schema, rest=statements[number:])
    _, version = _installed_vector(connection) or ("", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_VECTOR:
        raise MigrationError(
            f"pgvector 0.8 or newer is needed, this database has {version}; once the server has it, an administrator "
            "runs in this database: ALTER EXTENSION vector UPDATE",
            schema=schema,
        )


def extension_schema_of(connection: SyncConnection, default: str) -> str:
    """Return the schema the vector extension is in, or ``default`` if the database does not have it."""
    found = _installed_vector(connection)
    return default if found is None else found[0]


def preparing_statements(schema: str, extension_schema: str, role: str) -> list[str]:
    """Return what prepares any database, for a script: it changes nothing where nothing is missing."""
    schemas = [schema] if extension_schema in ("public", schema) else [schema, extension_schema]
    return [
        *(f"CREATE SCHEMA IF NOT EXISTS {quote(name)}" for name in schemas),
        f"CREATE EXTENSION IF NOT EXISTS vector SCHEMA {quote(extension_schema)}",
        *preparing_role_statements(schema, extension_schema, role),
    ]


def check_known(found: tuple[str, ...], known: Collection[str], schema: str) -> None:
    """Raise MigrationError if the schema is at a revision that this code does not know."""
    for revision in found:
        if revision not in known:
            raise MigrationError(
                f"schema {schema!r} is at revision {revision}, which this version of postgres-memory does not know "
                f"(its newest is {REVISION}): a newer version migrated it, or the table alembic_version there is "
                "another program's",
                schema=schema,
                found=revision,
                needed=REVISION,
            )


def _check_server(connection: SyncConnection, schema: str) -> None:
    version, encoding = connection.exec_driver_sql(
        "SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.getdatabaseencoding()"
    ).one()
    if version < MINIMUM_SERVER:
        raise MigrationError(
            f"PostgreSQL 15 or newer is needed, this server is {version // 10000}", schema=schema
        )
    if encoding != "UTF8":
        raise MigrationError(
            f"the database must be encoded in UTF8, this one is in {encoding}; make another with: CREATE DATABASE "
            "… TEMPLATE template0 ENCODING 'UTF8'",
            schema=schema,
        )


def _missing(connection: SyncConnection, schema: str, extension_schema: str) -> list[str]:
    """Return the statements that the database still needs before the first revision.

    IF NOT EXISTS would ask for the right to create even where there is nothing to do.
    """
    role = quote(str(connection.exec_driver_sql("SELECT current_user::text").scalar_one()))
    statements = []
    if not _has_schema(connection, schema):
        statements.append(f"CREATE SCHEMA {quote(schema)} AUTHORIZATION {role}")
    if _installed_vector(connection) is None:
        available = "SELECT count(*) FROM pg_catalog.pg_available_extensions WHERE name = 'vector'"
        if not connection.exec_driver_sql(available).scalar_one():
            raise MigrationError(
                "the server has no pgvector; install it there (Debian: postgresql-NN-pgvector), then migrate again",
                schema=schema,
            )
        if extension_schema != schema and not _has_schema(connection, extension_schema):
            statements.append(f"CREATE SCHEMA {quote(extension_schema)}")
            statements.append(f"GRANT USAGE ON SCHEMA {quote(extension_schema)} TO {role}")
        statements.append(f"CREATE EXTENSION vector SCHEMA {quote(extension_schema)}")
    return statements


def _has_schema(connection: SyncConnection, schema: str) -> bool:
    query = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = $1"
    return bool(connection.exec_driver_sql(query, (schema,)).scalar_one())


def _installed_vector(connection: SyncConnection) -> tuple[str, str] | None:
    """Return the schema and the version of the vector extension."""
    row = connection.exec_driver_sql(
        "SELECT nspname::text, extversion FROM pg_catalog.pg_extension "
        "JOIN pg_catalog.pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
    ).one_or_none()
    return None if row is None else (str(row[0]), str(row[1]))


def _run_or_explain(connection: SyncConnection, statement: str, schema: str, *, rest: list[str]) -> None:
    from sqlalchemy.exc import DBAPIError

    try:
        with connection.begin_nested():
            connection.exec_driver_sql(statement)
    except DBAPIError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if sqlstate in _MADE_MEANWHILE and statement.startswith("CREATE ROLE "):
            return
        if sqlstate == _NO_RIGHT:
            raise MigrationError(
                "this role may not prepare the database; an administrator runs in this database: "
                f"{'; '.join(rest)};",
                schema=schema,
            ) from error
        raise
