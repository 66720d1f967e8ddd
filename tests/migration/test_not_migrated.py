"""A database without our schema, with an older one, with a newer one: what its users are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import NotMigratedError, SchemaTooOldError
from postgres_memory.migrations import migrate
from tests.conftest import Database

from .alembic_runs import downgrade

Verb = Callable[[PostgresMemory], Awaitable[object]]

VERBS: dict[str, Verb] = {
    "search": lambda memory: memory.search("tea"),
    "store": lambda memory: memory.store("tea"),
    "clear": lambda memory: memory.clear(),
    "open": lambda memory: memory.open(),
}


async def execute(database: Database, statement: str) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
class TestEveryVerb:
    async def test_without_the_schema(self, empty_database: Database, verb: Verb) -> None:
        memory = PostgresMemory(empty_database.dsn)
        with pytest.raises(NotMigratedError, match="run: postgres-memory migrate") as raised:
            await verb(memory)
        await memory.close()
        assert (raised.value.schema, raised.value.found, raised.value.needed) == ("memory", None, REVISION)

    async def test_with_an_older_schema(self, empty_database: Database, verb: Verb) -> None:
        await migrate(Dsn(empty_database.dsn), revision="0003")
        memory = PostgresMemory(empty_database.dsn)
        with pytest.raises(SchemaTooOldError, match="run: postgres-memory migrate") as raised:
            await verb(memory)
        await memory.close()
        assert (raised.value.schema, raised.value.found, raised.value.needed) == ("memory", "0003", REVISION)
        assert "0003" in str(raised.value)
        assert REVISION in str(raised.value)

    async def test_with_a_borrowed_pool(self, empty_database: Database, verb: Verb) -> None:
        async with asyncpg.create_pool(empty_database.dsn, min_size=1, max_size=2) as pool:
            memory = PostgresMemory(pool)
            with pytest.raises(NotMigratedError, match="run: postgres-memory migrate"):
                await verb(memory)
            await migrate(Dsn(empty_database.dsn), revision="0003")
            with pytest.raises(SchemaTooOldError, match="run: postgres-memory migrate"):
                await verb(memory)
            await migrate(Dsn(empty_database.dsn))
            await verb(memory)
            await memory.close()

    async def test_with_a_newer_schema(self, database: Database, verb: Verb) -> None:
        """Old code runs on the new schema."""
        await execute(database, "UPDATE memory.alembic_version SET version_num = '9999'")
        async with PostgresMemory(database.dsn) as memory:
            await verb(memory)


async def test_the_same_object_works_once_it_migrated(empty_database: Database) -> None:
    memory = PostgresMemory(empty_database.dsn)
    with pytest.raises(NotMigratedError):
        await memory.store("tea")
    assert await memory.migrate() == REVISION
    await memory.store("tea")
    assert [entry.content for entry in await memory.search("tea")] == ["tea"]
    await memory.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SCHEMA memory",
        "CREATE SCHEMA memory; CREATE TABLE memory.memories (id text)",
        "CREATE SCHEMA memory; CREATE TABLE memory.alembic_version (version_num text)",
        "CREATE EXTENSION vector; CREATE SCHEMA memory; CREATE TABLE memory.alembic_version (version_num text)",
    ],
)
async def test_a_schema_that_is_not_ours(empty_database: Database, statement: str) -> None:
    await execute(empty_database, statement)
    memory = PostgresMemory(empty_database.dsn)
    with pytest.raises(NotMigratedError, match="postgres-memory migrate"):
        await memory.search("tea")
    await memory.close()


async def test_after_a_downgrade_to_nothing(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn))
    await downgrade(empty_database.dsn, "base")
    memory = PostgresMemory(empty_database.dsn)
    with pytest.raises(NotMigratedError):
        await memory.search("tea")
    await memory.close()


async def test_another_schema_of_a_migrated_database(database: Database) -> None:
    memory = PostgresMemory(database.dsn, schema="other")
    with pytest.raises(NotMigratedError, match="'other'") as raised:
        await memory.search("tea")
    await memory.close()
    assert raised.value.schema == "other"
