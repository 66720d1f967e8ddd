"""The connection that is laid aside after a statement: taken next, given back in time, and never in anybody's way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory, _pooling
from postgres_memory._pooling import Lending
from postgres_memory.errors import PoolExhaustedError

if TYPE_CHECKING:
    from tests.conftest import Database


def lending_of(memory: PostgresMemory) -> Lending:
    lending = memory._context.database._lending
    assert lending is not None
    return lending


def behind(proxy: Any) -> Any:
    """The connection itself, of which the pool gives a proxy."""
    return proxy._con


def idle(memory: PostgresMemory) -> int:
    return lending_of(memory).pool.get_idle_size()


async def test_it_is_used_again_and_counts_as_free(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=3) as memory:
        await memory.store("one")
        lending = lending_of(memory)
        size = lending.pool.get_size()
        assert (idle(memory), lending.counts().in_use) == (size - 1, 0)
        await memory.count()
        assert (idle(memory), lending.pool.get_size()) == (size - 1, size)


async def test_it_goes_back_to_the_pool_when_nobody_takes_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pooling, "_UNUSED", 0.05)
    async with PostgresMemory(database.dsn, pool_max_size=1) as memory:
        for _ in range(3):
            await memory.count()
            assert idle(memory) == 0
            await asyncio.sleep(0.2)
            assert idle(memory) == 1


async def test_it_goes_back_after_many_uses(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pooling, "_USES", 3)
    async with PostgresMemory(database.dsn, pool_max_size=1) as memory:
        await memory.count()
        after = []
        for _ in range(6):
            await memory.count()
            after.append(idle(memory))
        assert sorted(after) == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("size", [1, 2])
async def test_who_waits_gets_it(database: Database, size: int) -> None:
    """No call waits for a connection that lies aside: it would wait for ever."""
    async with PostgresMemory(
        database.dsn, pool_max_size=size, acquire_timeout=10, access_tracking="off"
    ) as memory:
        record = await memory.add("one")

        async def calls() -> None:
            for number in range(50):
                await memory.get(record.id)
                if number % 5 == 0:
                    async with memory.transaction() as inside:
                        await inside.get(record.id)

        await asyncio.gather(*(calls() for _ in range(8)))
        assert lending_of(memory).waiting == 0


async def test_one_that_the_server_closed_is_not_taken(database: Database) -> None:
    admin = await asyncpg.connect(database.direct_dsn)
    async with PostgresMemory(database.dsn, pool_max_size=1, retry_for=0) as memory:
        for _ in range(3):
            await memory.count()
            await admin.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await asyncio.sleep(0.1)  # the loop hears of it
            assert lending_of(memory).counts().in_use == 0
            await memory.count()
    await admin.close()


async def test_one_that_broke_without_telling_gives_its_place_back(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=1, retry_for=0) as memory:
        await memory.count()
        aside = lending_of(memory)._aside
        assert aside is not None
        assert aside._connection is not None
        behind(aside._connection)._protocol.abort()  # what a protocol error does
        assert await memory.count() == 0


async def test_closing_gives_it_back(database: Database) -> None:
    for calls in (1, 2):
        memory = PostgresMemory(database.dsn, pool_max_size=1)
        for _ in range(calls):
            await memory.count()
        lending = lending_of(memory)
        await asyncio.wait_for(asyncio.gather(memory.close(), memory.close()), 5)
        assert lending.pool.get_size() == 0


async def test_connections_made_before_the_server_was_demoted_are_not_laid_aside(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=2) as memory:
        await memory.count()
        lending = lending_of(memory)
        aside = lending._aside
        assert aside is not None
        held = await lending.acquire("a test")
        old = behind(held)
        await lending.forget()
        await lending.release(held, unharmed=True)
        assert (len(aside), old.is_closed()) == (0, True)
        await memory.count()
        assert aside._connection is not None
        new = behind(aside._connection)
        await lending.forget()
        assert (len(aside), new.is_closed()) == (0, True)


async def test_it_makes_nobody_exceed_the_size_of_the_pool(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=1, acquire_timeout=0.2) as memory:
        await memory.count()
        async with memory.transaction():
            with pytest.raises(PoolExhaustedError):
                await memory.count()
        assert await memory.count() == 0


async def test_who_comes_after_one_that_waited_is_told_in_time(database: Database) -> None:
    """A connection that went to who waited for it is not counted as free."""
    async with PostgresMemory(database.dsn, pool_max_size=1, acquire_timeout=0.2) as memory:
        lending = lending_of(memory)
        for _ in range(3):
            held = await lending.acquire("a test")
            waiting = asyncio.create_task(lending.acquire("a test that waits"))
            await asyncio.sleep(0.05)
            await lending.release(held)
            held = await waiting
            try:
                async with asyncio.timeout(2):
                    with pytest.raises(PoolExhaustedError):
                        await memory.count()
            finally:
                await lending.release(held)
