"""Reading from a replica, and a replica that takes over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from postgres_memory import PostgresMemory
from postgres_memory.config import Dsn
from postgres_memory.errors import DatabaseError
from postgres_memory.migrations import migrate

from .replication import Node, pair, take_over

LAG = 1.5
_POSITION = "({} - '0/0')::bigint"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lagging() -> AsyncIterator[tuple[Node, Node]]:
    async with pair(synchronous=False, delay=f"{LAG}s") as (primary, standby):
        await migrate(Dsn(primary.dsn))
        yield primary, standby


async def replayed(primary: Node, standby: Node) -> None:
    """Wait until the standby has all that the primary has."""
    there, here = await asyncpg.connect(primary.dsn), await asyncpg.connect(standby.dsn)
    position = await there.fetchval(f"SELECT {_POSITION.format('pg_current_wal_insert_lsn()')}")
    for _ in range(400):
        if await here.fetchval(f"SELECT {_POSITION.format('pg_last_wal_replay_lsn()')} >= $1", position):
            break
        await asyncio.sleep(0.05)
    await there.close()
    await here.close()


@asynccontextmanager
async def paused(standby: Node) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Keep the standby behind, on however busy a machine, until ``pg_wal_replay_resume`` is called or this ends."""
    control = await asyncpg.connect(standby.dsn)
    try:
        await control.execute("SELECT pg_wal_replay_pause()")
        yield control
    finally:
        await control.execute("SELECT pg_wal_replay_resume()")
        await control.close()


class Counted:
    """How many statements the standby answered for one object."""

    def __init__(self, memory: PostgresMemory) -> None:
        replica = memory._context.database.replica
        assert replica is not None
        self.answered = self.refused = 0
        fetch = replica.fetch

        async def counting(*arguments: Any) -> Any:
            rows = await fetch(*arguments)
            self.answered += rows is not None
            self.refused += rows is None
            return rows

        vars(replica)["fetch"] = counting


@pytest.mark.asyncio(loop_scope="module")
async def test_who_stored_finds_it_whatever_the_lag(lagging: tuple[Node, Node]) -> None:
    primary, standby = lagging
    await replayed(primary, standby)
    async with (
        paused(standby) as control,
        PostgresMemory(primary.dsn, read_dsn=standby.dsn, namespace="own") as memory,
    ):
        counted = Counted(memory)
        assert await memory.search("tea") == []
        assert counted.answered == 1
        id_ = (await memory.add("tea with milk")).id

        async def is_found() -> None:
            assert [entry.content for entry in await memory.search("tea")] == ["tea with milk"]
            assert (await memory.get(id_)).content == "tea with milk"
            assert len((await memory.find()).items) == 1
            assert len(await memory.recall("tea")) == 1
            await asyncio.sleep(0.01)

        # The primary answers while the standby is behind, then the standby does.
        end = time.monotonic() + 60
        while counted.refused <= 20:
            await is_found()
            assert time.monotonic() < end
        assert counted.answered == 1
        await control.execute("SELECT pg_wal_replay_resume()")
        end = time.monotonic() + LAG + 60
        while counted.answered <= 20:
            await is_found()
            assert time.monotonic() < end


@pytest.mark.asyncio(loop_scope="module")
async def test_others_writes_come_with_the_lag(lagging: tuple[Node, Node]) -> None:
    primary, standby = lagging
    async with (
        PostgresMemory(primary.dsn, namespace="others") as writer,
        PostgresMemory(primary.dsn, read_dsn=standby.dsn, namespace="others") as reader,
    ):
        await replayed(primary, standby)
        await writer.store("tea")
        assert await reader.search("tea") == []
        async with reader.transaction() as transaction:
            assert len(await transaction.search("tea")) == 1  # a transaction is the primary's
        await replayed(primary, standby)
        assert len(await reader.search("tea")) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_too_far_behind(lagging: tuple[Node, Node]) -> None:
    primary, standby = lagging
    async with (
        PostgresMemory(primary.dsn, namespace="behind") as writer,
        PostgresMemory(primary.dsn, read_dsn=standby.dsn, namespace="behind", max_replica_lag=0.3) as reader,
    ):
        await writer.store("tea")
        end = time.monotonic() + 3 * LAG
        while time.monotonic() < end:  # something always waits to be replayed
            await writer.store("more")
            await asyncio.sleep(0.05)
        assert len(await reader.search("tea", 1000)) == await writer.count()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_replica_that_is_gone(lagging: tuple[Node, Node]) -> None:
    primary, standby = lagging
    nowhere = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{standby.port}/postgres?sslmode=disable"
    async with PostgresMemory(primary.dsn, read_dsn=nowhere, namespace="gone") as memory:
        assert await memory.search("tea") == []  # the second host answers
    nowhere = "postgresql://postgres@127.0.0.1:1/postgres?sslmode=disable"
    async with PostgresMemory(primary.dsn, read_dsn=nowhere, namespace="gone") as memory:
        await memory.store("tea")
        await asyncio.sleep(0.05)
        began = time.monotonic()
        for _ in range(20):
            assert len(await memory.search("tea")) == 1
        assert time.monotonic() - began < 2


class Ledger:
    """What was acknowledged, and when."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, float] = {}
        self.unknown = 0

    async def write(self, memory: PostgresMemory, writer: int, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            content = f"{writer} {number}"
            try:
                await memory.store(content)
                self.acknowledged[content] = time.monotonic()
            except DatabaseError:
                self.unknown += 1
            number += 1


async def _until(ready: Any) -> None:
    for _ in range(6_000):
        if ready():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


@pytest.mark.parametrize("synchronous", [True, False])
async def test_a_standby_takes_over(synchronous: bool, record_property: Any) -> None:
    """kill -9 of the primary under load. With a synchronous standby nothing acknowledged is lost; nothing is twice."""
    async with pair(synchronous=synchronous) as (primary, standby):
        await migrate(Dsn(primary.dsn))
        both = (
            f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
            "?sslmode=disable&target_session_attrs=read-write"
        )
        ledger, stop = Ledger(), asyncio.Event()
        async with PostgresMemory(both, retry_for=30) as memory:
            writers = [asyncio.create_task(ledger.write(memory, number, stop)) for number in range(8)]
            await _until(lambda: len(ledger.acknowledged) > 1000)
            primary.kill()
            await asyncio.sleep(0.2)
            before = len(ledger.acknowledged)
            promoted = await take_over(standby)
            await _until(lambda: len(ledger.acknowledged) > before)
            waited = list(ledger.acknowledged.values())[before] - promoted
            await _until(lambda: len(ledger.acknowledged) > before + 500)
            stop.set()
            await asyncio.gather(*writers)
            counts = memory._context.database.pool_counts()
            assert counts is not None
            assert counts.in_use == 0
        connection = await asyncpg.connect(standby.dsn)
        rows = await connection.fetch("SELECT content, count(*) FROM memory.memories GROUP BY content")
        await connection.close()
        there = {row[0]: row[1] for row in rows}
        lost = [content for content in ledger.acknowledged if content not in there]
        double = [content for content, number in there.items() if number > 1]
        figures = {
            "faults": 1,
            "acknowledged": len(ledger.acknowledged),
            "lost": len(lost),
            "double": len(double),
            "refused": 0,
            "unknown": ledger.unknown,
            "first write": f"first acknowledged write {waited:.2f} s after the promotion began",
        }
        record_property("campaign", figures)
        assert double == []
        assert ledger.unknown == 0
        if synchronous:
            assert lost == []
