"""Metrics: how many calls, how long, how many rows, and how busy the pool is."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from postgres_memory import PostgresMemory
from postgres_memory._retrying import persistent
from postgres_memory.errors import (
    DatabaseError,
    DatabaseUnavailableError,
    NotFoundError,
    PoolExhaustedError,
)
from tests.conftest import Database
from tests.embedders import WordEmbedder
from tests.integration.telemetry import Telemetry, set_up

CALLS = "db.client.operation.duration"
POOL = "db.client.connection"


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    return set_up(monkeypatch)


async def test_calls_and_rows(memory: PostgresMemory, database: Database, telemetry: Telemetry) -> None:
    for content in ("one", "two", "three"):
        await memory.store(content)
    await memory.search("two", 2)
    await memory.find()
    with pytest.raises(NotFoundError):
        await memory.get("none")
    async with memory.transaction() as inside:
        await inside.count()
    assert telemetry.count(CALLS) == 7  # a block of transaction() is no call
    assert telemetry.count(CALLS, db_operation_name="store") == 3
    assert telemetry.count(CALLS, error_type="NotFoundError") == 1
    assert telemetry.total("db.client.response.returned_rows") == 2 + 3
    for attributes, point in telemetry.points(CALLS):
        assert attributes["db.system.name"] == "postgresql"
        assert attributes["db.namespace"] == f"{database.name}|memory"
        assert "postgres_memory.namespace" not in attributes  # there may be millions
        assert point.explicit_bounds == (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
        assert 0 < point.min <= point.max < 60


def of_pool(telemetry: Telemetry, name: str) -> dict[str, float]:
    return {
        attributes.get("db.client.connection.state", ""): point.value
        for attributes, point in telemetry.points(f"{POOL}.{name}")
    }


async def test_the_pool(database: Database, telemetry: Telemetry) -> None:
    async with PostgresMemory(
        database.dsn, pool_min_size=2, pool_max_size=2, acquire_timeout=0.5, access_tracking="off"
    ) as memory:
        await memory.count()
        assert of_pool(telemetry, "max") == {"": 2}
        assert of_pool(telemetry, "count") == {"used": 0, "idle": 2}
        held = telemetry.count(f"{POOL}.use_time")
        async with memory.transaction(), memory.transaction():
            assert of_pool(telemetry, "count") == {"used": 2, "idle": 0}
            waiting = asyncio.create_task(memory.count())
            await asyncio.sleep(0.1)
            assert of_pool(telemetry, "pending_requests") == {"": 1}
            with pytest.raises(PoolExhaustedError):
                await waiting
        assert of_pool(telemetry, "pending_requests") == {"": 0}
        assert telemetry.total(f"{POOL}.timeouts") == 1
        assert telemetry.count(f"{POOL}.use_time") == held + 2
        assert telemetry.count(f"{POOL}.wait_time") == held + 2
        ((attributes, _),) = telemetry.points(f"{POOL}.max")
        assert attributes["db.client.connection.pool.name"].endswith(f"{database.name}|memory")
        assert "@" not in attributes["db.client.connection.pool.name"]
    assert of_pool(telemetry, "max") == {}


async def test_pools_of_one_name_are_added_up_and_forgotten(database: Database, telemetry: Telemetry) -> None:
    first, second = PostgresMemory(database.dsn), PostgresMemory(database.dsn)
    await first.open()
    await second.open()
    assert of_pool(telemetry, "max") == {"": 20}
    await first.close()
    assert of_pool(telemetry, "max") == {"": 10}
    lending = second._context.database._lending
    assert lending is not None
    kept = weakref.ref(lending)
    await second.close()
    del lending
    gc.collect()
    assert kept() is None


async def test_what_is_tried_again(memory: PostgresMemory, telemetry: Telemetry) -> None:
    await memory.count()
    left = [DatabaseError("deadlock", sqlstate="40P01"), DatabaseUnavailableError("gone"), None]

    async def run() -> str:
        error = left.pop(0)
        if error is not None:
            raise error
        return "done"

    assert await persistent(run, 5.0) == "done"
    assert telemetry.total("postgres_memory.retries") == 2
    assert telemetry.total("postgres_memory.retries", error_type="40P01") == 1


async def test_the_embedder(database: Database, telemetry: Telemetry) -> None:
    embedder = WordEmbedder()
    async with PostgresMemory(database.dsn, embedder=embedder) as memory:
        await memory.add_many(["one", "two", "three"])
        await memory.recall("two")
        assert telemetry.total("postgres_memory.embedder.texts") == 4
        assert telemetry.count("postgres_memory.embedder.duration") == len(embedder.asked) == 2
        embedder.fails = lambda _: True
        await memory.store("four")
    assert telemetry.count("postgres_memory.embedder.duration", error_type="RuntimeError") == 1
    (attributes, _) = telemetry.points("postgres_memory.embedder.texts")[0]
    assert attributes == {"postgres_memory.space": "words"}


async def test_writes_that_went_as_one(memory: PostgresMemory, telemetry: Telemetry) -> None:
    await memory.store("opened")
    assert telemetry.count("postgres_memory.coalesced.size") == 0
    await asyncio.gather(*(memory.store(f"tea {number}") for number in range(9)))
    # The first finds nothing under way, and goes by itself.
    assert telemetry.count("postgres_memory.coalesced.size") == 1
    assert telemetry.total("postgres_memory.coalesced.size") == 8
