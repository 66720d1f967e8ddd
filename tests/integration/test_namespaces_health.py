"""`namespaces` and `health`: what a schema holds, and what a database looks like from here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.listing import list_namespaces
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import ClosedError, DatabaseError, DatabaseUnavailableError, SchemaTooOldError
from postgres_memory.listing_records import NamespaceInfo
from postgres_memory.migrations import migrate
from tests.conftest import Database, Server


async def execute(database: Database, *statements: str) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


class TestNamespaces:
    async def test_none(self, memory: PostgresMemory) -> None:
        assert await memory.namespaces() == []
        assert await memory.namespaces(counts=True) == []

    async def test_names_in_the_order_of_python_and_what_they_hold(
        self, database: Database, memory: PostgresMemory
    ) -> None:
        names = ["a", "B", "b", "é", "Z", "\U0001f600", "\uffff", "a b", "'; --", "default"]
        async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool:
            for number, name in enumerate(names, 1):
                one = PostgresMemory(pool, namespace=name)
                for n in range(number % 3 + 1):
                    await one.add("x", created_at=datetime(2001 + n, 1, 1, tzinfo=UTC))
            last_one = PostgresMemory(pool, namespace=names[-1])
            (first, *_) = await last_one.find(order_by="created_at")
            changed = await last_one.update(first.id, importance=0.1)
        found = await memory.namespaces(counts=True)
        assert [info.name for info in found] == sorted(names)
        assert {info.name: info.memories for info in found} == {
            name: number % 3 + 1 for number, name in enumerate(names, 1)
        }
        last = next(info for info in found if info.name == names[-1])
        assert last == NamespaceInfo(
            names[-1],
            first_created_at=datetime(2001, 1, 1, tzinfo=UTC),
            last_created_at=datetime(2000 + (last.memories or 0), 1, 1, tzinfo=UTC),
            last_updated_at=changed.updated_at or datetime.now(UTC),
            memories=len(names) % 3 + 1,
        )
        assert [info.memories for info in await memory.namespaces()] == [None] * len(names)

    async def test_whatever_the_status_and_in_a_transaction(self, memory: PostgresMemory) -> None:
        async with memory.transaction() as inside:
            await inside.add("x", expires_at=datetime(2000, 1, 1, tzinfo=UTC))
            assert [info.name for info in await inside.namespaces()] == ["default"]
            assert await memory.namespaces() == []
        ((info),) = await memory.namespaces(counts=True)
        assert info.memories == 1

    async def test_the_names_are_read_by_jumps(self, database: Database) -> None:
        """Of the index, a few pages for each name; of the table none but those of what is shown."""
        rows, names = 8000, 4
        connection = await asyncpg.connect(database.direct_dsn)
        try:
            await connection.execute(
                "INSERT INTO memory.memories (namespace, id, content) "
                f"SELECT 'n' || n % {names}, 'id' || n, 'text' FROM generate_series(1, {rows}) AS n"
            )
            await connection.execute("VACUUM ANALYZE memory.memories")
            sql = Catalog("memory", "public").statement(list_namespaces, False).sql
            text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
        finally:
            await connection.close()
        plan = json.loads(text)[0]["Plan"]
        assert plan["Actual Rows"] == names
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < names * 25


@pytest.fixture
async def stranger(server: Server, database: Database) -> AsyncIterator[str]:
    """The DSN of a role that may read and write everything, but owns nothing."""
    role = f"stranger_{database.name}"
    await execute(
        database,
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA memory TO {role}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA memory TO {role}",
    )
    parts = urlsplit(database.dsn)
    yield urlunsplit(parts._replace(netloc=f"{quote(role)}@{parts.netloc.rpartition('@')[2]}"))
    await execute(database, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


class TestHealth:
    async def test_a_database_that_is_well(self, memory: PostgresMemory) -> None:
        found = await memory.health()
        assert found.ok
        assert found.problems == ()
        assert found.server_version[0].isdigit()
        assert found.vector_version is not None
        assert found.schema_revision == found.needed_revision == REVISION
        assert found.role == found.owner
        assert found.acts_as_owner
        assert not found.standby
        assert found.pool_size == 1
        assert found.pool_in_use == 0
        assert found.pool_max_size == 10
        assert 0 < found.round_trip_seconds < 5

    async def test_the_pool_is_counted(self, database: Database) -> None:
        async with PostgresMemory(database.dsn, pool_min_size=2, pool_max_size=3) as memory:
            async with memory.transaction() as inside:
                await inside.store("x")
                found = await memory.health()
                assert (found.pool_size, found.pool_in_use, found.pool_max_size) == (2, 1, 3)
                assert (await inside.health()).ok
            assert (await memory.health()).pool_in_use == 0

    async def test_on_a_borrowed_pool_and_connection(self, database: Database) -> None:
        async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool:
            memory = PostgresMemory(pool)
            assert (await memory.health()).ok
            async with pool.acquire() as connection, connection.transaction():
                assert (await memory.health(connection=connection)).ok
                assert await connection.fetchval("SELECT 1") == 1
            assert pool.get_idle_size() == 1

    async def test_a_schema_that_is_not_there(self, empty_database: Database) -> None:
        memory = PostgresMemory(empty_database.dsn)
        try:
            found = await memory.health()
            assert not found.ok
            assert "postgres-memory migrate" in found.problems[0]
            assert any("pgvector" in problem for problem in found.problems)
            assert found.schema_revision is None
            assert found.needed_revision == REVISION
            assert found.vector_version is None
            assert found.owner is None
            assert found.pool_size is None
            await migrate(Dsn(empty_database.dsn))
            assert (await memory.health()).ok
            await memory.store("and then it works")
        finally:
            await memory.close()

    async def test_a_schema_that_is_too_old(self, database: Database) -> None:
        await execute(database, "UPDATE memory.alembic_version SET version_num = '0001'")
        async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=2) as pool:
            memory = PostgresMemory(pool)
            found = await memory.health()
            assert not found.ok
            assert found.schema_revision == "0001"
            (problem,) = found.problems
            assert "0001" in problem
            assert found.pool_size == 1
            with pytest.raises(SchemaTooOldError):
                await memory.count()

    async def test_a_newer_schema_is_well(self, database: Database) -> None:
        await execute(database, "UPDATE memory.alembic_version SET version_num = '9999'")
        async with PostgresMemory(database.dsn) as memory:
            found = await memory.health()
            assert found.ok
            assert (found.schema_revision, found.needed_revision) == ("9999", REVISION)

    async def test_a_role_that_is_no_owner(self, database: Database, stranger: str) -> None:
        role = f"stranger_{database.name}"
        async with PostgresMemory(stranger) as memory:
            found = await memory.health()
            assert not found.ok
            assert found.role == role
            assert found.owner != role
            assert not found.acts_as_owner
            (problem,) = found.problems
            assert role in problem
            assert str(found.owner) in problem
            await execute(database, f"ALTER TABLE memory.memories OWNER TO {role}")
            assert not (await memory.health()).acts_as_owner  # one of many tables

    async def test_a_member_that_inherits(self, database: Database, stranger: str) -> None:
        role, group = f"stranger_{database.name}", f"group_{database.name}"
        tables = "SELECT relname FROM pg_class WHERE relnamespace = 'memory'::regnamespace AND relkind = 'r'"
        connection = await asyncpg.connect(database.direct_dsn)
        try:
            await connection.execute(f"CREATE ROLE {group}")
            for (table,) in await connection.fetch(tables):
                await connection.execute(f"ALTER TABLE memory.{table} OWNER TO {group}")
            async with PostgresMemory(stranger) as memory:
                assert not (await memory.health()).acts_as_owner
                await connection.execute(f"GRANT {group} TO {role}")
                found = await memory.health()
                assert found.ok
                assert (found.role, found.owner) == (role, group)
                await connection.execute(f"REVOKE {group} FROM {role}; ALTER ROLE {role} NOINHERIT")
                await connection.execute(f"GRANT {group} TO {role}")
                assert not (await memory.health()).acts_as_owner
        finally:
            await connection.execute(f"DROP OWNED BY {group} CASCADE")
            await connection.execute(f"DROP ROLE {group}")
            await connection.close()

    async def test_a_role_without_any_right(self, database: Database, stranger: str) -> None:
        role = f"stranger_{database.name}"
        await execute(database, f"DROP OWNED BY {role}")
        memory = PostgresMemory(stranger)
        found = await memory.health()
        await memory.close()
        assert not found.ok
        assert found.role == role
        assert "permission denied" in found.problems[0]
        assert found.schema_revision is None

    async def test_what_does_not_answer_is_an_error(self, server: Server) -> None:
        nobody_there = PostgresMemory("postgresql://127.0.0.1:1/none")
        with pytest.raises(DatabaseUnavailableError):
            await nobody_there.health()
        no_such_database = PostgresMemory(server.dsn_of("no_such_database"))
        with pytest.raises(DatabaseError, match="no_such_database"):
            await no_such_database.health()
        await no_such_database.close()
        with pytest.raises(ClosedError):
            await no_such_database.health()

    async def test_a_lost_pool_recovers(self, database: Database, memory: PostgresMemory) -> None:
        before: Any = await memory.health()
        await execute(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        await asyncio.sleep(0.2)
        after = await memory.health()
        assert before.ok
        assert after.ok
