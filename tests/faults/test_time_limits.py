"""Limits of time: for a connection, for one of the pool, for a statement, for a whole call."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._driver_errors import translate
from postgres_memory.errors import (
    DatabaseError,
    DatabaseTimeoutError,
    DatabaseUnavailableError,
    InvalidTypeError,
    InvalidValueError,
    OutcomeUnknownError,
    PoolExhaustedError,
)

from ..conftest import Database
from ..integration.proxy import Proxy


async def test_who_holds_the_connections(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=2, acquire_timeout=0.3) as memory:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with memory.transaction():
                entered.set()
                await leave.wait()

        holder = asyncio.create_task(hold(), name="the holder")
        await entered.wait()
        connection = await asyncpg.connect(database.direct_dsn)
        async with connection.transaction():
            await connection.execute("LOCK TABLE memory.memories")
            storing = asyncio.create_task(memory.store("tea"), name="who stores")
            await asyncio.sleep(0.1)
            began = time.monotonic()
            with pytest.raises(PoolExhaustedError) as caught:
                await memory.search("tea")
            assert 0.25 < time.monotonic() - began < 5
        message = str(caught.value)
        assert "all 2 of the pool" in message
        assert message.index("the holder") < message.index("who stores")  # who holds one for longest, first
        assert "a transaction" in message
        assert "store_memory" in message
        assert caught.value.nothing_written
        leave.set()
        await holder
        await storing
        await connection.close()
        assert len(await memory.search("tea")) == 1


async def test_a_borrowed_pool_that_others_hold(database: Database) -> None:
    async with asyncpg.create_pool(database.dsn, min_size=1, max_size=1) as pool:
        memory = PostgresMemory(pool, acquire_timeout=0.2)
        await memory.open()
        async with pool.acquire():
            with pytest.raises(PoolExhaustedError, match="held by others: 1"):
                await memory.store("tea")
        await memory.store("tea")
        await memory.close()


async def test_a_server_that_does_not_answer(proxy: Proxy) -> None:
    proxy.silent = True
    memory = PostgresMemory(proxy.dsn, connect_timeout=0.3)
    began = time.monotonic()
    with pytest.raises((DatabaseTimeoutError, DatabaseUnavailableError)):
        await memory.open()
    assert time.monotonic() - began < 5
    proxy.silent = False
    await memory.store("tea")
    await memory.close()


async def test_a_statement_that_takes_too_long(database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    async with PostgresMemory(database.dsn, statement_timeout=0.3, retry_for=0.5) as memory:
        async with connection.transaction():
            await connection.execute("LOCK TABLE memory.memories")
            with pytest.raises(DatabaseTimeoutError):
                await memory.search("tea")
            with pytest.raises(DatabaseTimeoutError, match="unknown") as caught:
                await memory.store("tea")
            assert not caught.value.nothing_written
        assert await memory.search("tea") == []  # the server was told to give it up
    await connection.close()


async def test_a_whole_call(database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)

    async def slow(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(30)
        return [[1.0, 0.0] for _ in texts]

    async with PostgresMemory(database.dsn, namespace="slow", embedder=slow, space="slow") as slow_memory:
        with pytest.raises(DatabaseTimeoutError, match=r"store\(\) did not end within 0.2 s"):
            await slow_memory.within(0.2).store("tea")
    async with PostgresMemory(database.dsn, pool_max_size=2) as memory:
        async with connection.transaction():
            await connection.execute("LOCK TABLE memory.memories")
            for call in (memory.within(0.2).add("tea"), memory.within(0.2).search("tea")):
                with pytest.raises(DatabaseTimeoutError):
                    await call
        assert await memory.within(10).search("tea") == []
        await memory.within(10).store("tea")
        assert len(await memory.search("tea")) == 1
        counts = memory._context.database.pool_counts()
        assert counts is not None
        assert counts.in_use == 0
    await connection.close()


async def test_no_time_to_try_again(proxy: Proxy) -> None:
    """Without `retry_for`, the first lost answer is what the caller learns, and what it says is true."""
    async with PostgresMemory(proxy.dsn, retry_for=0) as memory:
        await memory.add("tea", id="tea")
        await memory.update("tea", importance=0.1)
        proxy.executions, proxy.lose_answer_to = 0, 1
        with pytest.raises(OutcomeUnknownError) as caught:
            await memory.update("tea", importance=0.9)
        assert not caught.value.nothing_written
        assert (await memory.get("tea")).importance == 0.9
        proxy.executions = 0
        with pytest.raises(DatabaseUnavailableError):
            await memory.get("tea")
        proxy.lose_answer_to = 0


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", True, None])
def test_what_is_no_time(value: object) -> None:
    for name in ("connect_timeout", "acquire_timeout", "max_replica_lag"):
        with pytest.raises((InvalidTypeError, InvalidValueError), match=name):
            PostgresMemory("postgresql://a/b", **{name: value})  # type: ignore[arg-type]
    with pytest.raises((InvalidTypeError, InvalidValueError), match="seconds"):
        PostgresMemory("postgresql://a/b").within(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "kind", "nothing_written"),
    [
        (asyncpg.ConnectionDoesNotExistError("gone"), DatabaseUnavailableError, False),
        (asyncpg.InterfaceError("connection is closed"), DatabaseUnavailableError, False),
        (asyncpg.InternalClientError("cannot switch to state"), DatabaseUnavailableError, False),
        (asyncpg.AdminShutdownError("terminating"), DatabaseUnavailableError, False),
        (asyncpg.CannotConnectNowError("starting up"), DatabaseUnavailableError, True),
        (asyncpg.TooManyConnectionsError("too many"), DatabaseUnavailableError, True),
        (ConnectionRefusedError(), DatabaseUnavailableError, True),
        (ConnectionResetError(), DatabaseUnavailableError, False),
        (TimeoutError(), DatabaseTimeoutError, False),
        (asyncpg.QueryCanceledError("canceled"), DatabaseTimeoutError, True),
        (asyncpg.DiskFullError("full"), DatabaseError, True),
        (asyncpg.DeadlockDetectedError("deadlock"), DatabaseError, True),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), DatabaseError, True),
    ],
)
def test_what_the_drivers_errors_become(
    error: Exception, kind: type[DatabaseError], nothing_written: bool
) -> None:
    translated = translate(error)
    assert type(translated) is kind
    assert isinstance(translated, DatabaseError)
    assert translated.nothing_written is nothing_written
