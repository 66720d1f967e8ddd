"""Calls that go together, when something breaks: what one caller is told is so, whatever became of the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from operator import eq
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import ClosedError, DatabaseError

from ..conftest import Database
from ..integration.proxy import Proxy
from .ledger import Ledger
from .suspensions import Moment, cancelled
from .waiting import until

_TERMINATE = """
SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@pytest.fixture
async def watcher(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


async def counted(watcher: asyncpg.Connection[asyncpg.Record]) -> Counter[str]:
    rows = await watcher.fetch("SELECT content FROM memory.memories")
    assert len(rows) == await watcher.fetchval("SELECT count(*) FROM memory.memory_hash_embeddings")
    return Counter(row["content"] for row in rows)


def in_use(memory: PostgresMemory) -> int:
    counts = memory._context.database.pool_counts()
    return 0 if counts is None else counts.in_use


@pytest.mark.parametrize("moment", ["waiting", "answered"])
@pytest.mark.parametrize("before", [0, 4])
async def test_a_call_that_is_cancelled_takes_no_other_with_it(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record], before: int, moment: Moment
) -> None:
    """Wherever it waits: as the first, which is written at once, or as one of several."""
    async with PostgresMemory(database.dsn) as memory:
        await memory.store("first")
        trial, reached = 0, True
        while reached:
            trial += 1
            earlier = [asyncio.create_task(memory.store(f"before {trial} {n}")) for n in range(before)]
            await asyncio.sleep(0)
            call = memory.store(f"victim {trial}")
            victim = asyncio.create_task(cancelled(call, partial(eq, trial), moment))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the victim's call is a task of its own
            later = [asyncio.create_task(memory.store(f"after {trial} {n}")) for n in range(4)]
            reached = await victim
            await asyncio.gather(*earlier, *later)
            await _check(memory, watcher, trial, before, kept=not reached)
        assert trial > 1


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
async def test_a_call_that_is_cancelled_under_way_takes_no_other_with_it(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record], turns: int
) -> None:
    """So many turns of the event loop after the others were taken along; or, after the last, as the server waits."""
    async with PostgresMemory(database.dsn) as memory:
        await memory.store("first")
        coalescer = memory._context.coalescer
        assert coalescer is not None
        lock = watcher.transaction()
        await lock.start()
        if turns == 5:
            await watcher.execute("LOCK TABLE memory.memories IN SHARE MODE")
        earlier = [asyncio.create_task(memory.store(f"before 1 {n}")) for n in range(4)]
        victim = asyncio.create_task(memory.store("victim 1"))
        later = [asyncio.create_task(memory.store(f"after 1 {n}")) for n in range(4)]
        await asyncio.sleep(0)
        await until(lambda: not coalescer._queue, pause=0)
        for _ in range(turns):
            await asyncio.sleep(0)
        if turns == 5:
            await until(lambda: in_use(memory) == 2)
        assert victim.cancel()
        await asyncio.wait([victim])
        assert victim.cancelled()
        await lock.commit()
        await asyncio.gather(*earlier, *later)
        await _check(memory, watcher, 1, 4, kept=False)


async def _check(
    memory: PostgresMemory,
    watcher: asyncpg.Connection[asyncpg.Record],
    trial: int,
    before: int,
    *,
    kept: bool,
) -> None:
    """All are there once but for the victim, which may be; nothing is under way any more."""
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert in_use(memory) == 0
    found = await counted(watcher)
    victims = found.pop(f"victim {trial}", 0)
    assert victims == 1 if kept else victims <= 1
    names = [f"before {trial} {n}" for n in range(before)] + [f"after {trial} {n}" for n in range(4)]
    found.pop("first", None)
    assert found == dict.fromkeys(names, 1)
    await memory.clear()


async def test_calls_that_are_all_cancelled_are_stopped(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.store("first")
        async with watcher.transaction():
            await watcher.execute("LOCK TABLE memory.memories IN SHARE MODE")
            tasks = [asyncio.create_task(memory.store(f"tea {number}")) for number in range(30)]
            await until(lambda: in_use(memory) >= 2)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await until(lambda: len(asyncio.all_tasks()) == 1)
            assert in_use(memory) == 0
        assert await counted(watcher) == {"first": 1}


_FAULTS = ("lost answer", "cut before", "lost answers", "cut before, lost answer")


@pytest.mark.parametrize("size", [4, 30])
@pytest.mark.parametrize("fault", _FAULTS)
async def test_each_memory_is_there_once(
    proxy: Proxy, watcher: asyncpg.Connection[asyncpg.Record], size: int, fault: str
) -> None:
    """The connection is lost before a statement of a flight reaches the server, or its answer on the way back."""
    contents = [f"tea {number}" for number in range(size)]
    async with PostgresMemory(proxy.dsn, access_tracking="off") as memory:
        await memory.open()
        executions, number = 1, 0
        while number < executions:
            proxy.executions = 0
            later = 1 if fault == "cut before, lost answer" else 0
            proxy.lose_answer_to = number + later if number and "lost" in fault else 0
            proxy.lose_answers_after = 1 if fault == "lost answers" else 0
            proxy.cut_before = number if "cut" in fault else 0
            calls = [(memory.store, memory.add)[n % 2](content) for n, content in enumerate(contents)]
            records = await asyncio.gather(*calls)
            if not number:
                executions = proxy.executions  # also those of a driver that meets a type for the first time
                assert executions >= 2
            proxy.lose_answer_to = proxy.cut_before = proxy.lose_answers_after = 0
            ordered = await watcher.fetch("SELECT id, content FROM memory.memories ORDER BY seq")
            assert [row["content"] for row in ordered] == contents
            for row, record in zip(ordered, records, strict=True):
                assert record is None or (record.id, record.content) == (row["id"], row["content"])
            await watcher.execute("DELETE FROM memory.memories")
            number += 1


async def test_connections_killed_while_they_write(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    ledger, going_on, killed = Ledger(), True, 0

    async def writer(name: int) -> None:
        number = 0
        while going_on:
            number += 1
            content = f"{name} {number}"
            await ledger.write("store", memory.store(content), {("content", content): 1})

    async with PostgresMemory(database.dsn, retry_for=60) as memory:
        await memory.store("first")
        writers = [asyncio.create_task(writer(name)) for name in range(40)]
        for kills in range(1, 9):
            await until(lambda kills=kills: ledger.acknowledged >= 80 * kills)  # type: ignore[misc]
            killed += len(await watcher.fetch(_TERMINATE))
        going_on = False
        await asyncio.gather(*writers)
    assert killed
    assert await ledger.compared(watcher) == ([], [])
    assert ledger.unknown == ledger.refused == 0


async def test_closing_in_an_outage_fails_what_waits(proxy: Proxy) -> None:
    memory = PostgresMemory(proxy.dsn, retry_for=0.5)
    await memory.store("first")
    await proxy.stop()
    calls: list[asyncio.Task[Any]] = [asyncio.create_task(memory.store(f"tea {n}")) for n in range(30)]
    await asyncio.sleep(0)
    await memory.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, DatabaseError | ClosedError) for outcome in outcomes)
    await until(lambda: len(asyncio.all_tasks()) == 1)
