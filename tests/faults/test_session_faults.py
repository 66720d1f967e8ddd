"""Sessions are in each other's way, run into limits, or find that the server or the client has changed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import DatabaseError

from ..conftest import Database
from ..integration.proxy import Proxy
from .campaign import RETRY_FOR, Record, campaign
from .workload import ANCHOR

_LOCKED = "BEGIN; LOCK memory.memories IN SHARE ROW EXCLUSIVE MODE; SELECT pg_sleep(0.1); COMMIT"


@pytest.fixture
async def other(field: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Another session, on which no limit that a test sets applies."""
    connection = await asyncpg.connect(field.dsn)
    await connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
    yield connection
    connection.terminate()


async def limit(field: Database, setting: str, value: str) -> None:
    """Set what new sessions of the database begin with."""
    await field.server.run(f"ALTER DATABASE \"{field.name}\" SET {setting} = '{value}'")


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
async def test_limits(
    field: Database, other: asyncpg.Connection[asyncpg.Record], record: Record, setting: str
) -> None:
    """Others hold a lock for longer than a session may wait."""

    async def hold() -> None:
        await other.execute(_LOCKED)

    memory = PostgresMemory(field.dsn, retry_for=RETRY_FOR)
    async with memory, campaign(memory, field.dsn, record) as work:
        await work.reached(50)
        await limit(field, setting, "50ms")
        await memory._context.database._lent_from().forget()
        await work.while_writing(hold, every=20)
        await limit(field, setting, "0")
        await memory._context.database._lent_from().forget()
        code = {"statement_timeout": "57014", "lock_timeout": "55P03"}[setting]
        assert work.ledger.refused > 0
        assert all(error.endswith(code) for error in work.ledger.errors)


async def test_idle_in_transaction(field: Database, record: Record) -> None:
    """The application takes its time inside a transaction, and the server ends the session."""
    await limit(field, "idle_in_transaction_session_timeout", "50ms")

    async def take_time() -> None:
        async with memory.transaction() as inside:
            await inside.store("never")
            await asyncio.sleep(0.15)
            await inside.store("never")

    async def idle() -> None:
        with pytest.raises(DatabaseError) as caught:
            await take_time()
        assert caught.value.nothing_written

    memory = PostgresMemory(field.dsn, retry_for=RETRY_FOR)
    async with memory, campaign(memory, field.dsn, record) as work:
        await work.while_writing(idle, every=50)
        assert "never" not in [record.content for record in (await memory.find(limit=1000)).items]


async def test_deadlocks(field: Database, other: asyncpg.Connection[asyncpg.Record], record: Record) -> None:
    """Others lock memories in another order than ours, and our own transactions each other's."""
    victims: list[str | None] = []

    async def pair(first: str, second: str) -> None:
        try:
            async with memory.transaction() as inside:
                await inside.update(first, importance=random.random())
                await asyncio.sleep(0.01)
                await inside.update(second, importance=random.random())
        except DatabaseError as error:
            victims.append(error.sqlstate)

    async def meet() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(pair("one", "two"))
            group.create_task(pair("two", "one"))
            group.create_task(against_clear())

    async def against_clear() -> None:
        try:
            async with other.transaction():
                for order in ("DESC", "ASC"):
                    await other.execute(
                        "SELECT 1 FROM memory.memories WHERE id IN (SELECT id FROM memory.memories WHERE namespace = "
                        f"'default' ORDER BY seq {order} LIMIT 1 OFFSET 2) FOR UPDATE"
                    )
        except asyncpg.DeadlockDetectedError:
            pass

    memory = PostgresMemory(field.dsn, retry_for=RETRY_FOR)
    async with memory, campaign(memory, field.dsn, record) as work:
        await memory.add("one", id="one")
        await memory.add("two", id="two")
        await work.while_writing(meet, every=20)
        assert set(victims) == {"40P01"}


async def test_serialization_conflicts(field: Database, record: Record) -> None:
    """Everybody changes the same memory, each as if alone."""
    await limit(field, "default_transaction_isolation", "repeatable read")
    memory = PostgresMemory(field.dsn, retry_for=RETRY_FOR)
    async with memory, campaign(memory, field.dsn, record) as work:

        async def change() -> None:
            await asyncio.gather(*(memory.update(ANCHOR, importance=random.random()) for _ in range(4)))

        await work.while_writing(change, every=10)
        assert (await memory.get(ANCHOR)).version == 1 + 4 * work.faults
        assert work.ledger.refusals.keys() <= {"transaction"}


async def test_read_only(field: Database, other: asyncpg.Connection[asyncpg.Record], record: Record) -> None:
    """The server takes no writes for a while, as one that another has taken over from."""
    await other.execute("SET default_transaction_read_only = off")

    async def demote() -> None:
        await other.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await other.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(0.2)
        await other.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await other.execute("SELECT pg_reload_conf()")

    memory = PostgresMemory(field.dsn, retry_for=RETRY_FOR)
    async with memory, campaign(memory, field.dsn, record) as work:
        await work.while_writing(demote, every=100)
        # Only a transaction of the caller's is not tried again.
        assert work.ledger.errors.keys() <= {"DatabaseError 25006"}


async def test_a_borrowed_pool_is_renewed(field: Database, record: Record) -> None:
    """Its owner has it connect anew under way, again and again."""
    async with asyncpg.create_pool(field.dsn, min_size=1, max_size=5) as pool:
        memory = PostgresMemory(pool, retry_for=RETRY_FOR)
        async with memory, campaign(memory, field.dsn, record) as work:
            await work.while_writing(pool.expire_connections, every=20)


async def test_a_borrowed_pool_loses_connections(
    field: Database, other: asyncpg.Connection[asyncpg.Record], record: Record
) -> None:
    async def lose() -> None:
        await other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND random() < 0.4"
        )

    async with asyncpg.create_pool(field.dsn, min_size=1, max_size=5) as pool:
        memory = PostgresMemory(pool, retry_for=RETRY_FOR)
        async with memory, campaign(memory, field.dsn, record) as work:
            await work.while_writing(lose, every=20)


async def test_the_clock_of_the_client_jumps(
    field: Database, way: Proxy, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days ahead and back, while answers are lost, and another client deletes what tells of old writes."""
    now, now_ns = time.time, time.time_ns
    ahead = 0

    async def jump() -> None:
        nonlocal ahead
        ahead = random.randint(-400_000, 400_000)
        await purging.purge_expired()
        way.lose_answer_to = way.executions + 1

    monkeypatch.setattr(time, "time", lambda: now() + ahead)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + ahead * 1_000_000_000)
    memory, purging = PostgresMemory(way.dsn, retry_for=RETRY_FOR), PostgresMemory(field.dsn)
    async with purging, memory, campaign(memory, field.dsn, record) as work:
        await work.while_writing(jump, every=10)
        assert work.ledger.refusals.keys() <= {"transaction"}
