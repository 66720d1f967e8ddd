"""Statements that lock several memories lock them in one order; a transaction that dies of a deadlock is run again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql import lifecycle
from postgres_memory._sql.keys import release_expired_keys
from postgres_memory.errors import DatabaseError
from postgres_memory.filters import field
from tests.conftest import Database

if TYPE_CHECKING:
    Raw = asyncpg.Connection[asyncpg.Record]
    Verb = Callable[[PostgresMemory, Raw], Coroutine[None, None, object]]

KEY = {"namespace": "default"}
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
async def raws(database: Database) -> AsyncIterator[list[Raw]]:
    """Connections beside the library's."""
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(3):
            opened.append(await asyncpg.connect(database.direct_dsn))
            stack.push_async_callback(opened[-1].close)
        yield opened


async def waits(raw: Raw, count: int = 1) -> None:
    """Return when so many statements wait for a lock."""
    for _ in range(300):
        # Inside a transaction, what the statistics say is kept otherwise.
        await raw.execute("SELECT pg_stat_clear_snapshot()")
        if await raw.fetchval(WAITING) >= count:
            return
        await asyncio.sleep(0.02)
    pytest.fail("nothing waits")


async def restore(memory: PostgresMemory, raw: Raw) -> object:
    return await memory.restore("z", connection=raw)


async def delete_many(memory: PostgresMemory, raw: Raw) -> object:
    return await memory.delete_many(field("importance") == 1, connection=raw)


async def clear(memory: PostgresMemory, raw: Raw) -> object:
    await memory.clear(connection=raw)
    return None


async def clear_session(memory: PostgresMemory, raw: Raw) -> object:
    return await memory._context.on(raw).fetch(lifecycle.clear_session, KEY | {"session_id": "s"})


async def release_keys(memory: PostgresMemory, raw: Raw) -> object:
    return await memory._context.on(raw).fetch(release_expired_keys, KEY)


@pytest.mark.parametrize("first", [restore, clear, clear_session, release_keys, delete_many])
async def test_what_locks_several_memories_does_so_in_one_order(
    memory: PostgresMemory, raws: list[Raw], first: Verb
) -> None:
    """In transactions of the caller's, where nothing is run again. Every order but that of insertion begins with a."""
    gate, one, two = raws
    for id_ in ("z", "a"):
        await memory.add(
            f"fact {id_}", id=id_, dedupe="content", memory_type="session", session_id="s", importance=1.0
        )
    await gate.execute("UPDATE memory.memories SET supersedes = 'z' WHERE id = 'a'")
    await gate.execute("UPDATE memory.memories SET status = 'superseded' WHERE id = 'z'")
    await gate.execute("UPDATE memory.memories SET expires_at = '2000-01-01Z' WHERE id = 'a'")
    await gate.execute("UPDATE memory.memories SET expires_at = '2001-01-01Z' WHERE id = 'z'")
    async with gate.transaction():
        await gate.execute("SELECT FROM memory.memories WHERE id = 'a' FOR UPDATE")
        running = [asyncio.create_task(first(memory, one))]
        await waits(gate, 1)
        running.append(asyncio.create_task(delete_many(memory, two)))
        await waits(gate, 2)
    await asyncio.gather(*running)
    assert await memory.count(include_inactive=True) == 0


async def test_a_statement_that_dies_of_a_deadlock_is_run_again(
    memory: PostgresMemory, raws: list[Raw]
) -> None:
    raw = raws[0]
    await memory.add("fact a", id="a")
    await memory.add("fact b", id="b")
    await raw.execute("SET deadlock_timeout = '1min'")  # so that the other one is chosen
    async with raw.transaction():
        await raw.execute("UPDATE memory.memories SET importance = 1 WHERE id = 'b'")
        deleting = asyncio.create_task(memory.delete_many(None, all=True))
        await waits(raw)
        await raw.execute("UPDATE memory.memories SET importance = 1 WHERE id = 'a'")
        assert not deleting.done()
    assert await deleting == 2


async def hold_id_and_want_key(memory: PostgresMemory, raw: Raw, connection: Raw | None) -> object:
    """Let an `add` under a key die of a deadlock with ``raw``, which inserts its id, then its key, and rolls back."""
    await raw.execute("SET deadlock_timeout = '1min'")
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute("INSERT INTO memory.memories (namespace, id, content) VALUES ('default', 'a', '')")
    adding = asyncio.create_task(memory.add("fact", id="a", idempotency_key="k", connection=connection))
    await waits(raw)
    await raw.execute(
        "INSERT INTO memory.idempotency_keys VALUES ('default', 'system', 'k', 'x', '', now() + interval '1 day')"
    )
    await transaction.rollback()
    return await adding


async def test_a_transaction_that_dies_of_a_deadlock_is_run_again(
    memory: PostgresMemory, raws: list[Raw]
) -> None:
    added = await hold_id_and_want_key(memory, raws[0], None)
    assert added == await memory.get("a")
    assert await memory.add("fact", id="a", idempotency_key="k") == added


async def test_the_callers_transaction_is_not(memory: PostgresMemory, raws: list[Raw]) -> None:
    transaction = raws[1].transaction()
    await transaction.start()
    with pytest.raises(DatabaseError) as caught:
        await hold_id_and_want_key(memory, raws[0], raws[1])
    assert caught.value.sqlstate == "40P01"
    await transaction.rollback()
    assert await memory.count() == 0


async def test_memories_related_in_circles_are_deleted_at_once(database: Database) -> None:
    """A deletion takes relations along from both ends, in an order that no statement can choose."""
    memories = [PostgresMemory(database.dsn, pool_max_size=8, access_tracking="off") for _ in range(2)]
    ids = [f"m{number}" for number in range(16)]
    try:
        for _ in range(6):
            await memories[0].add_many({"content": "fact", "id": id_} for id_ in ids)
            for source in ids:
                for target in ids:
                    if source != target:
                        await memories[0].relate(source, target, "related")
            outcomes = await asyncio.gather(
                *(memories[number % 2].delete(id_) for number, id_ in enumerate(ids))
            )
            assert all(outcomes)
    finally:
        await asyncio.gather(*(memory.close() for memory in memories))
