"""What expires: seen or not, purged in batches; and what a session takes along when it is cleared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from postgres_memory import PostgresMemory, PostgresSession
from postgres_memory._writing.purge import Purged
from postgres_memory.errors import InvalidValueError, UsageError
from postgres_memory.records import MemoryStatus
from tests.conftest import Database

ACTIVE = MemoryStatus.ACTIVE


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection beside the library."""
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


async def found(memory: PostgresMemory) -> list[str]:
    return [entry.content for entry in await memory.search("fact", limit=100)]


async def expired(memory: PostgresMemory, count: int, prefix: str = "e") -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    for n in range(count):
        await memory.add("fact", id=f"{prefix}{n}", expires_at=past + timedelta(minutes=n))


async def test_purge_deletes_the_expired_in_batches(
    memory: PostgresMemory, database: Database, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await expired(memory, 7)
    await memory.add("fact", id="later", expires_at=datetime.now(UTC) + timedelta(hours=1))
    await memory.add("fact", id="never", idempotency_key="k")
    await memory.supersede("e6", "fact", id="new")
    await raw.execute("UPDATE memory.idempotency_keys SET expires_at = now() - interval '1 second'")
    async with PostgresMemory(database.dsn, namespace="other") as other:
        await expired(other, 1)
        seen: list[Purged] = []
        assert await memory.purge_expired(batch_size=3, progress=seen.append) == Purged(7, 1)
        assert seen == [Purged(3, 0), Purged(6, 0), Purged(7, 0), Purged(7, 1)]
        assert (await other.get("e0")).id == "e0"
    ids = await raw.fetch("SELECT id FROM memory.memories WHERE namespace = 'default' ORDER BY seq")
    assert [row["id"] for row in ids] == ["later", "never", "new"]
    assert (await memory.get("new")).supersedes is None
    assert await memory.purge_expired() == Purged(0, 0)


async def test_purge_leaves_what_others_hold_and_does_not_wait(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await expired(memory, 4)
    async with raw.transaction():
        await raw.execute("UPDATE memory.memories SET importance = 1 WHERE id = 'e1'")
        assert await asyncio.wait_for(memory.purge_expired(batch_size=2), 10) == Purged(3, 0)
    assert (await memory.get("e1")).importance == 1
    assert await memory.purge_expired() == Purged(1, 0)


async def test_two_purges_at_once_share_the_work(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        await expired(one, 40)
        parts = await asyncio.gather(one.purge_expired(batch_size=3), two.purge_expired(batch_size=3))
        assert sum(part.memories for part in parts) + (await one.purge_expired()).memories == 40


async def test_purge_is_refused_inside_a_transaction(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await expired(memory, 1)
    async with memory.transaction() as inside:
        with pytest.raises(UsageError, match="outside of a transaction"):
            await inside.purge_expired()
    async with raw.transaction():
        with pytest.raises(UsageError):
            await memory.purge_expired(connection=raw)
    with pytest.raises(InvalidValueError, match="batch_size"):
        await memory.purge_expired(batch_size=0)
    assert await memory.purge_expired(connection=raw) == Purged(1, 0)


async def test_expiry_is_judged_by_the_databases_clock(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await memory.add("fact", id="a", expires_at=datetime.now(UTC) + timedelta(hours=1))
    assert await found(memory) == ["fact"]
    assert await memory.purge_expired() == Purged(0, 0)
    await memory.update("a", expires_at=await raw.fetchval("SELECT clock_timestamp()"))
    assert await found(memory) == []
    assert (await memory.get("a")).status is ACTIVE
    assert await memory.purge_expired() == Purged(1, 0)


async def test_session_memories_get_their_time_to_live(database: Database) -> None:
    async with PostgresMemory(database.dsn, session_ttl=timedelta(hours=1)) as memory:
        await memory.add("fact", id="old")
        new = await memory.supersede("old", "fact", memory_type="session")
    assert new.updated_at is not None
    assert new.expires_at == new.updated_at + timedelta(hours=1)


async def test_clear_removes_every_status(memory: PostgresMemory) -> None:
    await memory.add("fact", id="a")
    await memory.add("fact", id="z")
    await memory.supersede("a", "fact", id="b")
    await memory.archive("z")
    await memory.clear()
    assert await memory.get_many(["a", "b", "z"]) == [None, None, None]


async def test_a_session_takes_its_memories_along_if_asked(
    database: Database, memory: PostgresMemory
) -> None:
    async with PostgresSession(database.dsn, "s1") as session:
        await memory.add("of the session", id="a", memory_type="session", session_id="s1")
        await memory.add("lasting", id="b", session_id="s1")
        await memory.add("of another", id="c", memory_type="session", session_id="s2")
        await session.add_messages([{"content": "hello"}])
        await session.clear()
        assert await session.get_messages() == []
        assert (await memory.get("a")).session_id == "s1"
        await session.add_messages([{"content": "hello"}])
        await session.clear(memories=True)
        assert await session.get_messages() == []
        assert [record and record.id for record in await memory.get_many(list("abc"))] == [None, "b", "c"]
