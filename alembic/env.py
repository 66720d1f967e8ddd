"""Alembic's environment: run by `alembic` in a checkout and by `postgres_memory.migrations.migrate`."""

from __future__ import annotations

import asyncio

from alembic import context
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from pgvector.sqlalchemy import VECTOR
from sqlalchemy import Connection

from postgres_memory._migration_errors import explained
from postgres_memory._sql.policies import PRINCIPAL_ROLE
from postgres_memory._sql.schema import tables
from postgres_memory.config import check_schema, dsn_from_environment, migration_dsn_from_environment
from postgres_memory.errors import ConfigurationError, PostgresMemoryError
from postgres_memory.migrations import (
    check_known,
    check_turn,
    escaped,
    extension_schema_of,
    migration_connection,
    prepare_database,
    preparing_statements,
)

config = context.config


def option(name: str, default: str) -> str:
    """Return what `migrate` was told, or what stands behind -x, or the default."""
    told = config.attributes.get(name) or context.get_x_argument(as_dictionary=True).get(name)
    return check_schema(told or default, name)


def upgrading() -> bool:
    """Tell an upgrade from the commands that find a schema or only look, such as downgrade, current and check."""
    chosen = getattr(config.cmd_opts, "cmd", None)
    return chosen is None or chosen[0].__name__ == "upgrade"


def run_offline(schema: str, extension_schema: str, role: str) -> None:
    """Write the SQL instead of running it."""
    configure(schema, extension_schema, role, None)
    with context.begin_transaction():
        if upgrading():
            for statement in preparing_statements(schema, extension_schema, role):
                context.execute(escaped(statement))
        context.run_migrations()


async def run_online(schema: str, extension_schema: str, role: str) -> None:
    """Run on the database that the environment names."""
    dsn = migration_dsn_from_environment() or dsn_from_environment()
    if dsn is None:
        raise ConfigurationError(
            "no database: set POSTGRES_MEMORY_MIGRATION_DSN, POSTGRES_MEMORY_DSN or DATABASE_URL"
        )
    with explained(schema):
        async with migration_connection(dsn) as connection:
            await connection.run_sync(run_revisions, schema, extension_schema, role)


def run_revisions(connection: Connection, schema: str, extension_schema: str, role: str) -> None:
    """Run what the command asked for; each revision in a transaction of its own."""
    if upgrading():
        prepare_database(connection, schema, extension_schema, role)
    extension_schema = extension_schema_of(connection, extension_schema)
    connection.commit()
    configure(schema, extension_schema, role, connection)
    known = {script.revision for script in context.script.walk_revisions()}
    check_known(context.get_context().get_current_heads(), known, schema)
    connection.commit()
    with context.begin_transaction():
        context.run_migrations()
    config.attributes["revision"] = context.get_context().get_current_revision()


def configure(schema: str, extension_schema: str, role: str, connection: Connection | None) -> None:
    """Tell Alembic where things are; the revisions read the names of schemas and role from its options."""
    context.configure(
        connection=connection,
        dialect_name=None if connection else "postgresql",
        dialect_opts={"paramstyle": "named"},
        literal_binds=connection is None,
        target_metadata=tables(schema, extension_schema).metadata,
        version_table_schema=schema,
        include_schemas=True,
        include_name=lambda name, kind, _: kind != "schema" or name == schema,
        include_object=comparable,
        compare_type=compare_type,
        transaction_per_migration=True,
        on_version_apply=check_before_commit,
        schema=schema,
        extension_schema=extension_schema,
        principal_role=role,
    )


def check_before_commit(ctx: MigrationContext, **_: object) -> None:
    """Keep a revision from being committed after the lock was lost. It is called inside its transaction."""
    if ctx.connection is not None and not ctx.as_sql:
        check_turn(ctx.connection)


def comparable(_object: object, name: str | None, kind: str, _found: bool, _other: object) -> bool:
    """Leave out the index on an expression, which Alembic compares as text; a test compares what the server says."""
    return kind != "index" or name != "memories_terms_idx"


def compare_type(
    _context: object, _inspected: object, _column: object, found: object, wanted: object
) -> bool | None:
    """Compare vectors by their dimensions, and leave other types to Alembic: how they are spelt does not matter."""
    if isinstance(found, VECTOR) and isinstance(wanted, VECTOR):
        return bool(found.dim != wanted.dim)
    return None


def run() -> None:
    """Run in the way that was asked for."""
    names = (
        option("schema", "memory"),
        option("extension_schema", "public"),
        option("principal_role", PRINCIPAL_ROLE),
    )
    if context.is_offline_mode():
        run_offline(*names)
    elif "connection" in config.attributes:
        run_revisions(config.attributes["connection"], *names)
    else:
        asyncio.run(run_online(*names))


try:
    run()
except PostgresMemoryError as error:
    if "connection" in config.attributes:
        raise
    # The command prints the message of its own kind of error, and a traceback of any other.
    raise CommandError(str(error)) from error
