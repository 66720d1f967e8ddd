"""`add_many` beside others that want the same memories: nobody deadlocks, and every item's outcome is told."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.bulk_records import BulkResult
from tests.conftest import Database

_ROUNDS = 6
_COUNT = 400


def items_of(numbers: list[int]) -> list[Any]:
    return [{"id": f"id {number}", "content": f"text {number}", "importance": 0.25} for number in numbers]


def shuffled(seed: int) -> list[int]:
    numbers = list(range(_COUNT))
    random.Random(seed).shuffle(numbers)
    return numbers


@pytest.mark.parametrize("on_conflict", ["error", "ignore", "update"])
@pytest.mark.parametrize("dedupe", [None, "content"])
async def test_loads_of_the_same_ids_in_other_orders(
    database: Database, on_conflict: Any, dedupe: Any
) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for number in range(_ROUNDS):
            loads = (
                memory.add_many(items_of(shuffled(seed)), on_conflict=on_conflict, dedupe=dedupe)
                for memory, seed in ((one, number), (two, 100 + number), (one, 200 + number))
            )
            results = await asyncio.gather(*loads)
            assert await one.count() == _COUNT
            if on_conflict == "error":
                assert sorted(result.stored for result in results) == [0, 0, _COUNT]
                failed = [failure for result in results for failure in result.failed]
                assert len(failed) == 2 * _COUNT
                assert {failure.reason for failure in failed} == {"id: there is such a memory already"}
            elif on_conflict == "ignore":
                assert sum(result.stored for result in results) == _COUNT
            else:
                assert [result.stored for result in results] == [_COUNT] * 3
            await one.clear()


async def test_loads_of_the_same_contents_in_other_orders(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for number in range(_ROUNDS):
            loads = (
                memory.add_many([f"text {n}" for n in shuffled(seed)], dedupe="content")
                for memory, seed in ((one, number), (two, 100 + number), (one, 200 + number))
            )
            results = await asyncio.gather(*loads)
            assert sum(result.stored for result in results) == _COUNT
            assert sum(result.ignored for result in results) == 2 * _COUNT
            await one.clear()


async def test_updates_beside_deletions(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for number in range(_ROUNDS):
            await one.add_many(items_of(shuffled(number)), on_conflict="ignore")
            result, *_ = await asyncio.gather(
                one.add_many(items_of(shuffled(100 + number)), on_conflict="update"),
                two.delete_many({"importance": 0.25}),
                one.delete_many({"importance": 0.25}),
            )
            assert result == BulkResult(stored=_COUNT)


async def test_relations_beside_deletions(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for number in range(_ROUNDS):
            await one.add_many(items_of(shuffled(number)), on_conflict="ignore")
            sources = [{"content": f"about {n}", "derived_from": [f"id {n}"]} for n in shuffled(100 + number)]
            result, _ = await asyncio.gather(
                one.add_many(cast(Any, sources)), two.delete_many({"importance": 0.25})
            )
            assert result.stored + result.not_stored == _COUNT
            assert all("no memory 'id" in failure.reason for failure in result.failed)
            await one.clear()


async def test_batches_beside_each_other_keep_the_order(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for _ in range(3):
            assert (await memory.add_many(map(str, range(2_000)), batch_size=37)).stored == 2_000
            found = [entry.content for entry in await memory.search("", 2_000)]
            assert found == [str(number) for number in range(2_000)]
            await memory.clear()


async def test_one_connection_is_enough(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_min_size=1, pool_max_size=1) as memory:
        loads = (memory.add_many(map(str, range(500)), batch_size=20) for _ in range(3))
        assert [result.stored for result in await asyncio.wait_for(asyncio.gather(*loads), 60)] == [500] * 3
