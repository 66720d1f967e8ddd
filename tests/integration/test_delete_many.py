"""`delete_many`: what matches is deleted with what hangs on it, all or none, and each memory by one caller."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import Any, cast

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import InvalidInputError, InvalidValueError, NotFoundError
from postgres_memory.filters import And, Filter, Or, field
from postgres_memory.records import MemoryRecord, MemoryRelation, MemoryRelationType
from tests.conftest import Database

TABLES = ("memories", "memory_hash_embeddings", "memory_access", "memory_relations")


async def test_what_matches_goes_with_its_relations(memory: PostgresMemory, database: Database) -> None:
    kept = await memory.add("kept", importance=0.9)
    relation = MemoryRelation(kept.id, MemoryRelationType.EXTENDS)
    gone = [await memory.add(f"gone {n}", importance=0.1, relations=[relation]) for n in range(3)]
    await memory.add(
        "kept too", importance=0.9, relations=[MemoryRelation(gone[0].id, MemoryRelationType.SUPPORTS)]
    )
    assert await memory.delete_many(field("importance") < 0.5) == 3
    assert await memory.delete_many({"importance": {"$lt": 0.5}}) == 0
    assert await memory.get_many([record.id for record in gone]) == [None] * 3
    assert [record.content for record in await memory.find(order_by="created_at")] == ["kept", "kept too"]
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        rows = {table: await connection.fetchval(f"SELECT count(*) FROM memory.{table}") for table in TABLES}
    finally:
        await connection.close()
    assert rows["memories"] == rows["memory_hash_embeddings"] == 2
    assert rows["memory_relations"] == 0


async def test_whatever_the_status_and_expired_too(memory: PostgresMemory) -> None:
    for status in ("active", "archived", "superseded"):
        await memory.add(MemoryRecord(content=status, status=cast(Any, status), thread_id="t"))
    await memory.add("expired", thread_id="t", expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    await memory.add("other", thread_id="u")
    asked = field("thread_id") == "t"
    assert await memory.count(asked) == 1
    assert await memory.count(asked, include_inactive=True) == 4
    assert await memory.delete_many(asked & (field("status") == "archived")) == 1
    assert await memory.delete_many(asked) == 3
    assert await memory.count(include_inactive=True) == 1


EMPTY: list[Any] = [
    None,
    {},
    And(),
    ~Or(),
    {"$and": []},
    {"$not": {"$or": []}},
    Or([field("version") == 7, And()]),
    field("id").not_in([]),
    {"tags": {"$containsAll": []}},
]


@pytest.mark.parametrize("empty", EMPTY, ids=map(str, EMPTY))
async def test_an_empty_filter_needs_a_word_more(memory: PostgresMemory, empty: Any) -> None:
    await memory.add("a")
    with pytest.raises(InvalidValueError, match="all=True"):
        await memory.delete_many(empty)
    assert await memory.count() == 1
    assert await memory.delete_many(empty, all=True) == 1
    assert await memory.count() == 0


async def test_all_does_not_widen_a_filter(memory: PostgresMemory) -> None:
    await memory.add("a", importance=0.1)
    await memory.add("b", importance=0.9)
    assert await memory.delete_many(Or()) == 0
    assert await memory.delete_many({"importance": {"$gt": 0.5}}, all=True) == 1
    assert [record.content for record in await memory.find()] == ["a"]


@pytest.mark.parametrize("bad", [{"topic": 1}, {"importance": "x"}, "importance", {"$where": "1"}, 3])
async def test_a_bad_filter_deletes_nothing(memory: PostgresMemory, bad: Any) -> None:
    await memory.add("a")
    with pytest.raises(InvalidInputError):
        await memory.delete_many(bad, all=True)
    with pytest.raises(TypeError):
        await cast(Any, memory.delete_many)()
    assert await memory.count() == 1


async def test_other_namespaces_stay(database: Database, memory: PostgresMemory) -> None:
    await memory.add("a")
    async with PostgresMemory(database.dsn, namespace="other") as other:
        await other.add("a")
        assert await memory.delete_many(None, all=True) == 1
        assert await other.count() == 1


async def test_in_a_transaction_of_the_caller(database: Database, memory: PostgresMemory) -> None:
    record = await memory.add("a")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        assert await memory.delete_many({"version": 1}, connection=connection) == 1
        with pytest.raises(NotFoundError):
            await memory.get(record.id, connection=connection)
        assert await memory.count() == 1
        await transaction.rollback()
    finally:
        await connection.close()
    assert await memory.get(record.id) == record

    async def delete_and_fail() -> None:
        async with memory.transaction() as inside:
            assert await inside.delete_many({"version": 1}) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await delete_and_fail()
    assert await memory.count() == 1


async def test_of_many_callers_each_memory_is_deleted_by_one(
    database: Database, memory: PostgresMemory
) -> None:
    """Filters that overlap, and that plans may walk in different orders, neither miscount nor wait for each other."""
    chance = random.Random(5)
    for _ in range(4):
        for n in range(120):
            await memory.add("x", importance=chance.random(), tags=[f"t{n % 5}"], id=f"{chance.random()}")
        asked: list[Filter] = [
            field("importance") >= 0.3,
            field("importance") < 0.8,
            field("tags").contains_any(["t1", "t3"]),
            field("id") > "0.5",
            field("created_at") > datetime(2000, 1, 1, tzinfo=UTC),
        ]
        async with PostgresMemory(database.dsn, pool_max_size=5) as second:
            calls = [who.delete_many(one) for one in asked for who in (memory, second)]
            deleted = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert sum(deleted) == 120
        assert await memory.count(include_inactive=True) == 0


async def test_a_memory_that_stops_matching_meanwhile_stays(
    database: Database, memory: PostgresMemory
) -> None:
    record = await memory.add("a", importance=0.1)
    async with PostgresMemory(database.dsn) as second:
        async with memory.transaction() as inside:
            await inside.update(record.id, importance=0.9)
            waiting = asyncio.create_task(second.delete_many(field("importance") < 0.5))
            await asyncio.sleep(0.3)
            assert not waiting.done()
        assert await waiting == 0
    assert (await memory.get(record.id)).importance == 0.9
