"""Up, down and up again: the whole way and every step of it."""

from __future__ import annotations

from typing import cast

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from postgres_memory.migrations import migrate
from tests.conftest import Database

from .alembic_runs import downgrade, revisions
from .catalog import read_catalog


async def fetch(database: Database, query: str, *arguments: object) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(database.dsn)
    try:
        return [tuple(row) for row in await connection.fetch(query, *arguments)]
    finally:
        await connection.close()


async def test_up_down_up(empty_database: Database) -> None:
    assert await migrate(Dsn(empty_database.dsn)) == REVISION
    full = await read_catalog(empty_database.dsn)
    assert full["relations"]
    assert full["functions"]
    await downgrade(empty_database.dsn, "base")
    assert not any((await read_catalog(empty_database.dsn)).values())
    assert await migrate(Dsn(empty_database.dsn)) == REVISION
    assert await read_catalog(empty_database.dsn) == full


async def test_base_leaves_alembics_table_and_nothing_else(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn))
    await downgrade(empty_database.dsn, "base")
    depending = """
        SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = 'memory'::regnamespace"""
    assert await fetch(empty_database, depending) == [("table memory.alembic_version",)]
    assert await fetch(empty_database, "SELECT * FROM memory.alembic_version") == []


async def test_each_step_down_and_up(empty_database: Database) -> None:
    """Each revision's downgrade undoes its upgrade exactly, and the upgrade then makes the same again."""
    before, below = await read_catalog(empty_database.dsn), "base"
    for revision in revisions():
        assert await migrate(Dsn(empty_database.dsn), revision=revision) == revision
        after = await read_catalog(empty_database.dsn)
        assert after != before, revision
        await downgrade(empty_database.dsn, below)
        assert await read_catalog(empty_database.dsn) == before, revision
        await migrate(Dsn(empty_database.dsn), revision=revision)
        assert await read_catalog(empty_database.dsn) == after, revision
        before, below = after, revision


async def test_memories_outlive_the_step_that_gives_them_embeddings(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn), revision="0002")
    await fetch(
        empty_database,
        """
        INSERT INTO memory.memories (namespace, id, content, expires_at)
        VALUES ('default', 'a', 'the user likes tea', NULL), ('default', 'b', '', now() + interval '1 day')""",
    )
    kept = await fetch(empty_database, "SELECT * FROM memory.memories ORDER BY seq")
    await migrate(Dsn(empty_database.dsn))
    now = await fetch(empty_database, "SELECT * FROM memory.memories ORDER BY seq")
    assert [row[: len(kept[0])] for row in now] == kept
    async with PostgresMemory(empty_database.dsn) as memory:
        found = await memory.search("the user likes tea")
        assert [(entry.content, entry.score) for entry in found] == [("the user likes tea", 1.0), ("", 0.0)]


async def test_memories_outlive_going_down_and_up_over_later_steps(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn))
    async with PostgresMemory(empty_database.dsn) as memory:
        await memory.store("the user likes tea", {"source": "chat"})
        await memory.store("the user likes tea", {"source": "mail"})
        await memory.store("", None)
        stored = await memory.search("the user likes tea", limit=9)
    assert len(stored) == 3
    for revision in ("0003", "0002"):
        await downgrade(empty_database.dsn, revision)
        await migrate(Dsn(empty_database.dsn))
        async with PostgresMemory(empty_database.dsn) as memory:
            assert await memory.search("the user likes tea", limit=9) == stored
            assert (await memory.verify()).ok


async def test_migrating_twice_changes_nothing(database: Database) -> None:
    before = await read_catalog(database.dsn)
    async with PostgresMemory(database.dsn) as memory:
        await memory.store("kept")
        assert await memory.migrate() == REVISION
        assert await memory.migrate() == REVISION
        assert [entry.content for entry in await memory.search("kept")] == ["kept"]
    assert await read_catalog(database.dsn) == before


async def test_upgrading_to_less_than_there_is_changes_nothing(database: Database) -> None:
    assert await migrate(Dsn(database.dsn), revision="0002") == REVISION


@pytest.mark.parametrize("revision", ["0999", "0000", "1", "nonsense", "base:head", ""])
async def test_a_revision_that_does_not_exist(revision: str) -> None:
    """It is refused before the database is asked, which is nowhere."""
    nowhere = "postgresql://127.0.0.1:1/nowhere"
    with pytest.raises(InvalidValueError, match=r"must be 'head' or one of '0001' to") as raised:
        await migrate(Dsn(nowhere), revision=revision)
    assert raised.value.argument == "revision"
    with pytest.raises(InvalidValueError):
        await PostgresMemory(nowhere).migrate(revision=revision)


async def test_a_revision_of_another_type() -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a str, not int"):
        await migrate(Dsn("postgresql://127.0.0.1:1/nowhere"), revision=cast("str", 17))
