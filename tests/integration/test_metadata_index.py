"""The index on metadata: filters that it answers find the same by it; built beside writers and repaired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._recall import metadata_index
from postgres_memory._sql import listing
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.listing import find_memories
from postgres_memory._sql.metadata_index import is_answered
from postgres_memory._sql.predicates import prepare_filter
from postgres_memory.errors import DatabaseError, UsageError
from postgres_memory.filters import Filter, field
from tests.conftest import Database

USER, LABELS = field("metadata", "user"), field("metadata", "labels")
ANSWERED: list[Filter] = [
    USER == 7,
    (USER == 7) & (field("importance") > 0),
    (USER == 7) | (USER == 8),
    USER.is_in([7, 8]),
    LABELS.contains_any(["l7"]),
    LABELS.contains_all(["l7", "all"]),
    field("metadata", "labels", 0) == "l7",
]
NOT_ANSWERED: list[Filter] = [
    USER != 7,
    USER > 7,
    (USER == 7) | (field("importance") > 0.9),
    ~((USER == 7) & (USER == 8)),
    USER.is_none(),
    field("importance") > 0.1,
]


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(database.dsn)
    yield opened
    await opened.close()


async def valid(connection: asyncpg.Connection[asyncpg.Record]) -> bool | None:
    found: bool | None = await connection.fetchval(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('memory.memories_metadata_idx')"
    )
    return found


async def fill(memory: PostgresMemory, size: int) -> None:
    await memory.add_many(
        {"content": f"note {n}", "id": f"{n}", "metadata": {"user": n % 50, "labels": [f"l{n % 50}", "all"]}}
        for n in range(size)
    )


@pytest.mark.parametrize("few", [5, 2000])
async def test_pages_are_the_same_with_it(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(listing, "_FEW", few)
    async with PostgresMemory(database.dsn) as memory:
        await fill(memory, 400)
        asked: list[Filter] = [*ANSWERED, *NOT_ANSWERED, LABELS.contains_all(["all"])]

        async def pages(by_metadata: bool) -> list[list[str]]:
            metadata_index._known[memory._context.database] = by_metadata, float("inf")
            (await memory._context.database.opened()).statement.cache_clear()
            found = []
            for one in asked:
                for order in ("created_at", "-importance"):
                    ids: list[str] = []
                    page = await memory.find(filter=one, order_by=order, limit=3)
                    ids += [record.id for record in page]
                    while page.cursor is not None:
                        page = await memory.find(filter=one, order_by=order, limit=3, cursor=page.cursor)
                        ids += [record.id for record in page]
                    found.append(ids)
            return found

        without = await pages(False)
        assert await memory.create_metadata_index()
        assert await pages(True) == without
        (await memory._context.database.opened()).statement.cache_clear()


async def test_a_page_of_what_matches_rarely_is_found_by_it(
    database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        assert await memory.create_metadata_index()
        assert not await memory.create_metadata_index()
        await fill(memory, 3000)
    await connection.execute("VACUUM ANALYZE memory.memories")
    for mode in ("force_custom_plan", "force_generic_plan"):
        await connection.execute(f"SET plan_cache_mode = {mode}")
        for asked in ANSWERED:
            prepared = prepare_filter(asked)
            statement = Catalog("memory", "public").statement(
                find_memories, "-created_at", False, "active", prepared.shape, True, None
            )
            given: dict[str, Any] = {**prepared.parameters, "namespace": "default", "limit": 5}
            values = [given[name] for name in statement.parameters]
            plan = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS off) {statement.sql}", *values)
            assert "on memories_metadata_idx" in str(plan), (mode, asked, plan)


@pytest.mark.parametrize("asked", [*ANSWERED, *NOT_ANSWERED])
def test_which_filters_it_answers(asked: Filter) -> None:
    assert is_answered(prepare_filter(asked).shape) is (asked in ANSWERED)


async def test_built_once_repaired_and_dropped(
    database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await fill(memory, 20)
        blocking = await asyncpg.connect(database.dsn)
        transaction = blocking.transaction()
        await transaction.start()
        await blocking.execute("UPDATE memory.memories SET version = version + 1")
        heard = asyncio.Event()
        building = asyncio.create_task(memory.create_metadata_index(progress=lambda *_: heard.set()))
        async with asyncio.timeout(30):
            await heard.wait()
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index "
            "WHERE datname = current_database()"
        )
        with pytest.raises(DatabaseError):
            await building
        await transaction.rollback()
        await blocking.close()
        assert await valid(connection) is False
        assert sorted(
            await asyncio.gather(memory.create_metadata_index(), memory.create_metadata_index())
        ) == [
            False,
            True,
        ]
        assert await valid(connection) is True
        async with memory.transaction() as inside:
            for call in (inside.create_metadata_index, inside.drop_metadata_index):
                with pytest.raises(UsageError, match="outside of a transaction"):
                    await call()
        assert await memory.drop_metadata_index()
        assert not await memory.drop_metadata_index()
        assert await valid(connection) is None
