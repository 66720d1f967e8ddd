"""Opening, closing, pools, event loops, failures and cancellation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.config import Dsn
from postgres_memory.errors import (
    ClosedError,
    DatabaseError,
    DatabaseUnavailableError,
    EventLoopError,
    InvalidTypeError,
    NotMigratedError,
    SchemaTooOldError,
    UsageError,
)
from postgres_memory.migrations import migrate

from ..conftest import Database
from .proxy import Proxy, proxied


@pytest.fixture
async def watcher(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that looks at the server from outside."""
    connection = await asyncpg.connect(database.server.dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    async with proxied(database) as running:
        yield running


async def backends(watcher: asyncpg.Connection[asyncpg.Record], name: str) -> int:
    return int(await watcher.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname = $1", name))


async def none_left(watcher: asyncpg.Connection[asyncpg.Record], name: str) -> bool:
    """Whether the database has no session, or soon has none: a server needs a moment to see one end."""
    for _ in range(500):
        if not await backends(watcher, name):
            return True
        await asyncio.sleep(0.02)
    return False


def test_the_constructor_does_nothing() -> None:
    # No event loop, no such host, no such database.
    memory = PostgresMemory("postgresql://nobody@no-such-host.invalid:1/nothing")
    assert memory.namespace == "default"


async def test_a_bad_host_shows_at_the_first_call() -> None:
    memory = PostgresMemory("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DatabaseUnavailableError):
        await memory.search("tea")
    with pytest.raises(DatabaseUnavailableError):
        await memory.store("tea")
    await memory.close()


async def test_fifty_tasks_open_one_pool(proxy: Proxy) -> None:
    memory = PostgresMemory(proxy.dsn)
    await asyncio.gather(*(memory.open() for _ in range(50)))
    assert proxy.connections == 1
    await asyncio.gather(*(memory.search("tea") for _ in range(50)))
    assert proxy.connections <= 10
    await memory.close()


async def test_the_pool_has_the_size_asked_for(proxy: Proxy) -> None:
    async with PostgresMemory(proxy.dsn, pool_min_size=2, pool_max_size=3) as memory:
        assert proxy.connections == 2
        await asyncio.gather(*(memory.search("tea") for _ in range(50)))
        assert proxy.connections == 3


async def test_two_hundred_stores_at_once(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=10) as memory:
        await asyncio.gather(*(memory.store(f"tea number {number}", {"n": number}) for number in range(200)))
        entries = await memory.search("tea number 7", 1000)
        assert sorted(entry.metadata["n"] for entry in entries) == list(range(200))
        found = await asyncio.gather(*(memory.search("tea number 7", 1000) for _ in range(30)))
        assert all(each == entries for each in found)


async def test_two_memories_on_one_loop(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as other:
        await asyncio.gather(*(each.store("tea") for each in (one, other) for _ in range(20)))
        await one.close()
        assert len(await other.search("tea", 99)) == 40


async def set_codecs(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    for name in ("text", "varchar"):
        await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str)
    await connection.set_type_codec("vector", encoder=str, decoder=str)
    await connection.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=float)


async def test_a_borrowed_pool_keeps_its_codecs_and_its_life(database: Database) -> None:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=3, init=set_codecs) as pool:
        for memory in (PostgresMemory(pool), PostgresMemory(pool)):
            async with memory:
                await memory.store("tea", {"milk": [1, 2.5, None, "é"]})
                async with memory.transaction() as transaction:
                    await transaction.store("green tea")
                entries = await memory.search("tea")
            assert [(entry.content, entry.metadata) for entry in entries[:1]] == [
                ("tea", {"milk": [1, 2.5, None, "é"]})
            ]
        # Its codecs are still there, and so is it.
        assert await pool.fetchval("SELECT '{\"a\": 1}'::jsonb") == {"a": 1}
        assert repr(memory) == "PostgresMemory(a borrowed pool, namespace='default')"
        with pytest.raises(ClosedError):
            await memory.search("tea")
        with pytest.raises(UsageError, match="migrate"):
            await PostgresMemory(pool).migrate()


async def test_a_connection_is_no_pool(database: Database) -> None:
    connection: Any = await asyncpg.connect(database.direct_dsn)
    with pytest.raises(InvalidTypeError, match="pool"):
        PostgresMemory(connection)
    await connection.close()


async def test_close_is_idempotent(database: Database, watcher: asyncpg.Connection[asyncpg.Record]) -> None:
    memory = PostgresMemory(database.dsn)
    await memory.store("tea")
    await asyncio.gather(*(memory.close() for _ in range(5)))
    assert await none_left(watcher, database.name)
    await memory.close()
    never_opened = PostgresMemory(database.dsn)
    await never_opened.close()
    await never_opened.close()


async def test_everything_is_refused_after_close(database: Database) -> None:
    memory = PostgresMemory(database.dsn)
    await memory.open()
    await memory.close()
    calls: list[Callable[[], Awaitable[object]]] = [
        memory.open,
        memory.clear,
        memory.verify,
        memory.migrate,
        lambda: memory.search("tea"),
        lambda: memory.search("tea", 0),
        lambda: memory.store("tea"),
        memory.transaction().__aenter__,
        memory.__aenter__,
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            await call()


async def test_close_lets_calls_finish(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    """Whatever was acknowledged is there, whatever was not says so; nobody waits for ever."""
    memory = PostgresMemory(database.dsn, pool_max_size=4)
    await memory.open()
    stores = [asyncio.create_task(memory.store(f"tea {number}")) for number in range(60)]
    await asyncio.sleep(0.005)
    async with asyncio.timeout(20):
        await memory.close()
        outcomes = await asyncio.gather(*stores, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {type(None), ClosedError}
    async with PostgresMemory(database.dsn) as again:
        assert len(await again.search("tea", 99)) == outcomes.count(None)
    assert await none_left(watcher, database.name)


async def test_close_while_opening(proxy: Proxy, watcher: asyncpg.Connection[asyncpg.Record]) -> None:
    proxy.delay = 0.02
    memory = PostgresMemory(proxy.dsn)
    opening = asyncio.create_task(memory.search("tea"))
    await asyncio.sleep(0.05)
    await memory.close()
    with pytest.raises(ClosedError):
        await opening
    assert await none_left(watcher, proxy.database.name)


async def test_other_event_loops(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for call in (lambda: memory.search("tea"), lambda: memory.store("tea"), memory.open, memory.close):
            with pytest.raises(EventLoopError):
                await asyncio.to_thread(asyncio.run, call())
        assert await memory.search("tea") == []
    # Nothing is open any more: closing again is nothing, anywhere.
    await asyncio.to_thread(asyncio.run, memory.close())


async def test_a_borrowed_pool_of_another_event_loop(database: Database) -> None:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1) as pool:
        memory = PostgresMemory(pool)
        for call in (lambda: memory.search("tea"), lambda: memory.store("tea"), memory.open):
            with pytest.raises(EventLoopError, match="pool"):
                await asyncio.to_thread(asyncio.run, call())
        assert await memory.search("tea") == []


async def test_an_opening_that_failed_binds_to_no_loop(database: Database) -> None:
    async with proxied(database) as proxy:
        await proxy.stop()
        memory = PostgresMemory(proxy.dsn)
        with pytest.raises(DatabaseUnavailableError):
            await asyncio.to_thread(asyncio.run, memory.open())
        await proxy.start()
        await memory.store("tea")
        await memory.close()


async def test_usable_once_the_server_is_back(proxy: Proxy) -> None:
    await proxy.stop()
    memory = PostgresMemory(proxy.dsn)
    before = asyncio.all_tasks()
    for _ in range(3):
        with pytest.raises(DatabaseUnavailableError):
            await memory.search("tea")
    with pytest.raises(DatabaseUnavailableError):
        async with memory:
            raise AssertionError("unreachable")
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before
    await proxy.start()
    await memory.store("tea")
    assert len(await memory.search("tea")) == 1
    await memory.close()


async def test_usable_once_the_role_may_log_in(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    role = f"late_{database.name}"
    async with proxied(database) as proxy:
        dsn = f"postgresql://{role}@127.0.0.1:{proxy.port}/{database.name}?sslmode=disable"
        memory = PostgresMemory(dsn)
        with pytest.raises(DatabaseError) as caught:
            await memory.open()
        assert caught.value.sqlstate == "28000"
        await watcher.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
        try:
            await memory.store("tea")
            await memory.close()
        finally:
            await watcher.execute(f"DROP ROLE {role}")


async def test_usable_once_it_is_migrated(
    empty_database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    memory = PostgresMemory(empty_database.dsn, pool_min_size=3)
    for call in (memory.open, lambda: memory.search("tea"), lambda: memory.store("tea")):
        with pytest.raises(NotMigratedError, match="postgres-memory migrate"):
            await call()
    assert await none_left(watcher, empty_database.name)
    await migrate(Dsn(empty_database.dsn))
    await memory.store("tea")
    assert len(await memory.search("tea")) == 1
    await memory.close()


async def test_usable_once_the_schema_is_new_enough(database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    now = await connection.fetchval("SELECT version_num FROM memory.alembic_version")
    await connection.execute("UPDATE memory.alembic_version SET version_num = '0000'")
    memory = PostgresMemory(database.dsn)
    with pytest.raises(SchemaTooOldError) as caught:
        await memory.search("tea")
    assert (caught.value.found, caught.value.needed) == ("0000", now)
    await connection.execute("UPDATE memory.alembic_version SET version_num = $1", now)
    assert await memory.search("tea") == []
    await memory.close()
    await connection.close()


@pytest.mark.parametrize("after", [0.0, 0.02, 0.05, 0.1, 0.2])
async def test_cancelled_while_opening(
    proxy: Proxy, watcher: asyncpg.Connection[asyncpg.Record], after: float
) -> None:
    """At several points of the opening, with several callers waiting for it."""
    proxy.delay = 0.01
    memory = PostgresMemory(proxy.dsn, pool_min_size=3)
    before = asyncio.all_tasks()
    openings = [asyncio.create_task(memory.search("tea")) for _ in range(4)]
    await asyncio.sleep(after)
    for opening in openings:
        opening.cancel()
    outcomes = await asyncio.gather(*openings, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError | list) for outcome in outcomes)
    if after < 0.05:
        assert await none_left(watcher, proxy.database.name)
    proxy.delay = 0
    await memory.store("tea")
    assert len(await memory.search("tea")) == 1
    await memory.close()
    assert await none_left(watcher, proxy.database.name)
    await asyncio.sleep(0.05)
    assert not [task for task in asyncio.all_tasks() - before if "Proxy" not in repr(task)]


async def test_cancelled_while_nobody_answers(proxy: Proxy) -> None:
    proxy.silent = True
    memory = PostgresMemory(proxy.dsn)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await memory.open()
    proxy.silent = False
    async with asyncio.timeout(10):
        await memory.store("tea")
        assert len(await memory.search("tea")) == 1
    await memory.close()


async def test_a_cancelled_call_leaves_the_pool_whole(database: Database) -> None:
    async with PostgresMemory(database.dsn, pool_max_size=2) as memory:
        for delay in (0, 0.0005, 0.001, 0.002, 0.004):
            calls = [asyncio.create_task(memory.store("tea")) for _ in range(8)]
            await asyncio.sleep(delay)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        await memory.clear()
        await asyncio.gather(*(memory.store("tea") for _ in range(8)))
        assert len(await memory.search("tea", 99)) == 8
