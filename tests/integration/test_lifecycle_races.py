"""The lifecycle's verbs at once: one wins, and one version is active."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import ConflictError
from postgres_memory.records import MemoryRecord, MemoryRelation, MemoryRelationType, MemoryStatus
from tests.conftest import Database
from tests.integration.lifecycle_states import add, found, statuses

ACTIVE = MemoryStatus.ACTIVE


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection beside the library."""
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


async def test_of_twenty_supersedes_at_once_one_wins(database: Database) -> None:
    memories = [PostgresMemory(database.dsn, pool_max_size=1) for _ in range(20)]
    try:
        await add(memories[0], "old")
        await asyncio.gather(*(memory.open() for memory in memories))
        outcomes = await asyncio.gather(
            *(memory.supersede("old", f"fact {n}", id=f"new {n}") for n, memory in enumerate(memories)),
            return_exceptions=True,
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, MemoryRecord)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, ConflictError)]
        assert (len(won), len(lost)) == (1, 19)
        assert all(error.id == "old" for error in lost)
        assert await statuses(memories[0], "old") == [("old", "superseded"), (won[0].id, "active")]
        assert await found(memories[0]) == [won[0].content]
    finally:
        await asyncio.gather(*(memory.close() for memory in memories))


async def waiting(raw: asyncpg.Connection[asyncpg.Record]) -> None:
    """Return when a statement waits for the transaction that ``raw`` is in."""
    blocked = "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    for _ in range(200):
        if await raw.fetch(blocked):
            return
        await asyncio.sleep(0.02)
    pytest.fail("nothing waits")


@pytest.mark.parametrize("commits", [True, False])
async def test_a_second_supersede_waits_for_the_first(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record], commits: bool
) -> None:
    await add(memory, "a")
    first = raw.transaction()
    await first.start()
    await memory.supersede("a", "fact b", id="b", connection=raw)
    second = asyncio.create_task(memory.supersede("a", "fact c", id="c"))
    await waiting(raw)
    if commits:
        await first.commit()
        with pytest.raises(ConflictError, match="superseded already"):
            await second
    else:
        await first.rollback()
        await second
    assert await statuses(memory, "a") == [("a", "superseded"), ("b" if commits else "c", "active")]


async def test_restore_looks_again_when_versions_change_under_it(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a")
    first = raw.transaction()
    await first.start()
    await memory.supersede("a", "fact b", id="b", connection=raw)
    restoring = asyncio.create_task(memory.restore("a"))
    await waiting(raw)
    await first.commit()
    assert (await restoring).status is ACTIVE
    assert await statuses(memory, "a") == [("a", "active"), ("b", "archived")]
    second = raw.transaction()
    await second.start()
    await memory.delete("a", connection=raw)
    restoring = asyncio.create_task(memory.restore("b"))
    await waiting(raw)
    await second.commit()
    assert (await restoring).supersedes is None
    assert await statuses(memory, "b") == [("b", "active")]


async def test_restores_and_supersedes_at_once_leave_one_active_version(database: Database) -> None:
    memories = [PostgresMemory(database.dsn, pool_max_size=2) for _ in range(4)]

    async def work(worker: int, memory: PostgresMemory) -> None:
        for turn in range(12):
            versions = await memory.history("a")
            active = [version for version in versions if version.status is ACTIVE]
            assert len(active) <= 1
            try:
                if (turn + worker) % 3 and active:
                    await memory.supersede(active[0].id, "fact", id=f"{worker} {turn}")
                else:
                    await memory.restore(versions[(turn * 7 + worker) % len(versions)].id)
            except ConflictError:
                continue

    try:
        await add(memories[0], "a")
        await asyncio.gather(*(work(worker, memory) for worker, memory in enumerate(memories)))
        states = [version.status for version in await memories[0].history("a")]
        assert states.count(ACTIVE) == 1
    finally:
        await asyncio.gather(*(memory.close() for memory in memories))


async def test_a_related_memory_that_vanishes_leaves_everything_as_it_was(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a", "witness")
    deleting = raw.transaction()
    await deleting.start()
    await memory.delete("witness", connection=raw)
    relation = MemoryRelation("witness", MemoryRelationType.SUPPORTS)
    superseding = asyncio.create_task(memory.supersede("a", "fact b", relations=[relation]))
    await waiting(raw)
    await deleting.commit()
    with pytest.raises(ConflictError, match="deleted meanwhile"):
        await superseding
    assert await statuses(memory, "a") == [("a", "active")]
