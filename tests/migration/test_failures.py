"""Migrations that do not end well: what is left behind, and what is said."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from urllib.parse import quote as percent_encoded
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import (
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailableError,
    MigrationError,
    PostgresMemoryError,
)
from postgres_memory.migrations import migrate
from tests.conftest import Database

from .alembic_runs import downgrade, run_alembic
from .catalog import read_catalog
from .test_concurrent import until_blocked

PASSWORD = "Geheim-77"


async def execute(database: Database, statement: str) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("in_the_way", "stays_at"),
    [
        # The second of a revision's statements fails.
        ("CREATE TABLE memory.memories_content_key_key ()", "0001"),
        ("CREATE TABLE memory.memory_hash_embeddings_long_idx ()", "0002"),
        ("CREATE TABLE memory.memory_relations ()", "0004"),
    ],
)
async def test_a_failing_revision_is_undone_and_those_before_it_stay(
    empty_database: Database, in_the_way: str, stays_at: str
) -> None:
    await execute(empty_database, f"CREATE SCHEMA memory; {in_the_way}")
    with pytest.raises(
        MigrationError, match=r"^migrating schema .memory. failed: .* already exists \(SQL"
    ) as raised:
        await migrate(Dsn(empty_database.dsn))
    assert "[SQL" not in str(raised.value)
    assert raised.value.schema == "memory"
    await execute(empty_database, in_the_way.replace("CREATE", "DROP").removesuffix("()"))
    left = await read_catalog(empty_database.dsn)
    await migrate(Dsn(empty_database.dsn), revision=stays_at)
    assert await read_catalog(empty_database.dsn) == left
    assert await migrate(Dsn(empty_database.dsn)) == REVISION


async def test_a_database_newer_than_the_code(database: Database) -> None:
    await execute(database, "UPDATE memory.alembic_version SET version_num = '0999'")
    before = await read_catalog(database.dsn)
    with pytest.raises(
        MigrationError, match="0999, which this version of postgres-memory does not know"
    ) as raised:
        await migrate(Dsn(database.dsn))
    error = raised.value
    assert (error.schema, error.found, error.needed) == ("memory", "0999", REVISION)
    with pytest.raises(MigrationError, match="0999"):
        await downgrade(database.dsn, "base")
    output = await run_alembic("upgrade", "head", dsn=database.dsn)
    assert output.returncode != 0
    assert "FAILED: schema 'memory' is at revision 0999" in output.stdout + output.stderr
    assert await read_catalog(database.dsn) == before


async def test_a_version_table_with_several_rows(database: Database) -> None:
    await execute(database, "INSERT INTO memory.alembic_version VALUES ('0001')")
    with pytest.raises(MigrationError, match="schema 'memory' cannot be migrated"):
        await migrate(Dsn(database.dsn))


async def test_cancelled_in_the_middle(empty_database: Database) -> None:
    """It ends at once, the revision under way is undone, nothing goes on behind the caller's back."""
    await migrate(Dsn(empty_database.dsn), revision="0002")
    at_two = await read_catalog(empty_database.dsn)
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        migrating = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until_blocked(empty_database)
        migrating.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await migrating
        assert time.monotonic() - started < 5
        assert await others(blocker) == []
        await blocker.execute("COMMIT")
    finally:
        await blocker.close()
    assert await read_catalog(empty_database.dsn) == at_two
    assert await migrate(Dsn(empty_database.dsn)) == REVISION


async def others(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    """Return what other sessions of the database do, once those that end have ended."""
    query = (
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    rows = await connection.fetch(query)
    for _ in range(100):
        if not rows:
            break
        await asyncio.sleep(0.02)
        rows = await connection.fetch(query)
    return [str(row["query"]) for row in rows]


async def test_cancelled_while_another_migrates(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn), revision="0002")
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        working = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until_blocked(empty_database)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await migrate(Dsn(empty_database.dsn))
        await blocker.execute("COMMIT")
        assert await working == REVISION
    finally:
        await blocker.close()


async def test_no_thread_stays_behind(empty_database: Database) -> None:
    before = threading.active_count()
    for _ in range(5):
        await migrate(Dsn(empty_database.dsn))
    assert threading.active_count() <= before + 1


async def test_a_connection_that_is_lost_under_way(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn), revision="0002")
    at_two = await read_catalog(empty_database.dsn)
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        migrating = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until_blocked(empty_database)
        await blocker.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        with pytest.raises(DatabaseUnavailableError):
            await migrating
        await blocker.execute("COMMIT")
    finally:
        await blocker.close()
    assert await read_catalog(empty_database.dsn) == at_two
    assert await migrate(Dsn(empty_database.dsn)) == REVISION


async def test_a_statement_timeout_is_said(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn), revision="0002")
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute(f'ALTER DATABASE "{empty_database.name}" SET lock_timeout = 200')
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        with pytest.raises(MigrationError, match=r"lock timeout \(SQLSTATE 55P03\)"):
            await migrate(Dsn(empty_database.dsn))
    finally:
        await blocker.close()


async def test_nothing_is_committed_once_the_lock_is_lost(empty_database: Database) -> None:
    """Another process may migrate by then. A pooler ends idle sessions, and an administrator ends any."""
    await migrate(Dsn(empty_database.dsn), revision="0002")
    at_two = await read_catalog(empty_database.dsn)
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        migrating = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until_blocked(empty_database)
        holders = "FROM pg_locks WHERE locktype = 'advisory' AND database = "
        ours = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        # Waited for: until it is gone the lock is held, and a revision may be committed.
        gone = await blocker.fetch(f"SELECT pg_terminate_backend(pid, 10000) {holders}{ours}")
        assert [row[0] for row in gone] == [True]
        await blocker.execute("COMMIT")
        with pytest.raises(MigrationError, match=r"was not kept.* POSTGRES_MEMORY_MIGRATION_DSN"):
            await migrating
    finally:
        await blocker.close()
    assert await read_catalog(empty_database.dsn) == at_two
    assert await migrate(Dsn(empty_database.dsn)) == REVISION


async def test_an_idle_timeout_does_not_end_the_lock(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn), revision="0002")
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute(
            f'ALTER DATABASE "{empty_database.name}" SET idle_in_transaction_session_timeout = 200'
        )
        await blocker.execute(
            "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE memory.memories"
        )
        migrating = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until_blocked(empty_database)
        await asyncio.sleep(0.6)
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = $1::oid"
        database = "SELECT oid FROM pg_database WHERE datname = current_database()"
        assert await blocker.fetchval(locks, await blocker.fetchval(database)) == 1
        await blocker.execute("COMMIT")
        assert await migrating == REVISION
    finally:
        await blocker.close()


@pytest.mark.parametrize(
    ("dsn", "kind"),
    [
        (f"postgresql://a:{PASSWORD}@localhost:1/a", DatabaseUnavailableError),
        (f"postgresql://a:{PASSWORD}@nowhere.invalid/a", DatabaseUnavailableError),
        (f"postgresql://localhost:1/a?user=a&password={PASSWORD}", DatabaseUnavailableError),
        (f"postgresql://a:{PASSWORD}@localhost:x{PASSWORD}/a", ConfigurationError),
        (f"postgresql://a:x{PASSWORD}/1@localhost/a", ConfigurationError),
        (f"postgresql://a:x[{PASSWORD}@localhost/a", ConfigurationError),
        (f"postgresql://localhost/a?sslmode={PASSWORD}", ConfigurationError),
    ],
)
async def test_a_dsn_that_leads_nowhere(dsn: str, kind: type[PostgresMemoryError]) -> None:
    with pytest.raises(
        kind, match=r"^the (connection failed: |DSN postgresql://.* cannot be read)"
    ) as raised:
        await migrate(Dsn(dsn))
    error: BaseException | None = raised.value
    while error is not None:
        assert PASSWORD not in str(error)
        assert "sqlalche.me" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def test_a_database_that_does_not_exist(empty_database: Database) -> None:
    with pytest.raises(DatabaseError, match=r'"no_such" does not exist \(SQLSTATE 3D000\)'):
        await migrate(Dsn(empty_database.server.dsn_of("no_such")))


async def test_a_role_that_may_not_connect(empty_database: Database) -> None:
    parts = urlsplit(empty_database.dsn)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{percent_encoded('no such role')}:{PASSWORD}@{host}"
    with pytest.raises(DatabaseError, match=r"SQLSTATE 28") as raised:
        await PostgresMemory(urlunsplit(parts._replace(netloc=netloc))).migrate()
    assert PASSWORD not in str(raised.value)


async def test_nothing_is_printed_and_logging_stays_as_it_was(
    empty_database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    root, names = (
        logging.getLogger(),
        ("alembic", "alembic.runtime.migration", "sqlalchemy", "sqlalchemy.engine"),
    )
    before = [root.level, list(root.handlers), *(logging.getLogger(name).level for name in names)]
    disabled = {
        name for name, logger in logging.Logger.manager.loggerDict.items() if getattr(logger, "disabled", 0)
    }
    await migrate(Dsn(empty_database.dsn))
    await downgrade(empty_database.dsn, "base")
    after = [root.level, list(root.handlers), *(logging.getLogger(name).level for name in names)]
    assert after == before
    assert disabled == {
        name for name, logger in logging.Logger.manager.loggerDict.items() if getattr(logger, "disabled", 0)
    }
    handlers = [handler for name in names for handler in logging.getLogger(name).handlers]
    assert all(isinstance(handler, logging.NullHandler) for handler in handlers)
    assert capfd.readouterr() == ("", "")


async def test_without_a_dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTGRES_MEMORY_DSN", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="POSTGRES_MEMORY_DSN or DATABASE_URL"):
        await migrate()


async def test_the_dsn_of_the_environment(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn.replace("postgresql://", "postgresql+asyncpg://"))
    assert await migrate() == REVISION
