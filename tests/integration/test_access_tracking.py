"""`last_accessed` and `access_count`: what counts, when it is written, and that nothing can stop the counting."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest

from postgres_memory import PostgresMemory, _access
from postgres_memory._access import AccessTracking
from postgres_memory.errors import InvalidValueError, NotFoundError
from tests.conftest import Database

MODES: tuple[AccessTracking, ...] = ("batched", "inline", "off")


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection beside the library."""
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write after a tenth of a second."""
    monkeypatch.setattr(_access, "INTERVAL", 0.1)


async def counts(raw: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    rows = await raw.fetch("SELECT id, access_count FROM memory.memory_access ORDER BY id")
    return {row["id"]: row["access_count"] for row in rows}


async def until(raw: asyncpg.Connection[asyncpg.Record], *expected: dict[str, int]) -> None:
    """Wait until the counters are as one of those expected."""
    found: dict[str, int] = {}
    for _ in range(200):
        found = await counts(raw)
        if found in expected:
            return
        await asyncio.sleep(0.05)
    assert found in expected


async def add(memory: PostgresMemory, *ids: str) -> None:
    for id_ in ids:
        await memory.add(f"fact {id_}", id=id_)


@pytest.mark.parametrize("mode", MODES)
async def test_reading_counts_once_per_call(
    database: Database, raw: asyncpg.Connection[asyncpg.Record], mode: AccessTracking
) -> None:
    async with PostgresMemory(database.dsn, access_tracking=mode) as memory:
        await add(memory, "a", "b", "c")
        before = datetime.now(UTC)
        assert (await memory.get("a")).access_count == 0
        await memory.get_many(["a", "b", "a", "nobody"])
        assert len(await memory.search("fact b", limit=2)) == 2
        with pytest.raises(NotFoundError):
            await memory.get("nobody")
        if mode == "inline":
            assert await counts(raw) == {"a": 3, "b": 2}
            record = await memory.get("a")
            assert record.access_count == 3  # as it was before this access
            assert record.last_accessed is not None
            assert (
                before - timedelta(seconds=1)
                < record.last_accessed
                < datetime.now(UTC) + timedelta(seconds=1)
            )
        else:
            assert await counts(raw) == {}
    assert await counts(raw) == {"batched": {"a": 3, "b": 2}, "inline": {"a": 4, "b": 2}, "off": {}}[mode]


async def test_other_verbs_count_as_no_access(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a")
    await memory.add("again", id="a", on_conflict="ignore")
    await memory.supersede("a", "fact", id="b")
    await memory.restore("a")
    await memory.restore("a")
    await memory.archive("a")
    await memory.archive("a")
    await memory.history("a")
    await memory.update("a", importance=1)
    await memory.close()
    assert await counts(raw) == {}


def test_the_option_is_checked() -> None:
    with pytest.raises(InvalidValueError, match="access_tracking"):
        PostgresMemory("postgresql://nowhere.invalid/db", access_tracking=cast(Any, "on"))


async def test_touches_are_written_together_after_the_interval(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 2)
    await add(memory, "a", "b")
    await asyncio.gather(*(memory.get("a") for _ in range(30)), *(memory.get("b") for _ in range(5)))
    assert await counts(raw) == {}
    await until(raw, {"a": 30, "b": 5})
    updates = await raw.fetchval("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'memory_access'")
    assert updates == 0  # one statement wrote each row once
    await memory.get("a")
    await until(raw, {"a": 31, "b": 5})


async def test_many_touches_are_written_without_waiting(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_access, "ENOUGH", 3)
    await add(memory, *"abcdefg")
    await memory.get_many(list("abcdefg"))
    await until(raw, dict.fromkeys("abcdefg", 1))


async def test_the_time_is_that_of_the_call_on_the_databases_clock_and_only_moves_forward(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a", "b")
    await raw.execute("INSERT INTO memory.memory_access VALUES ('default', 'b', now() + interval '1 day', 7)")
    start = await raw.fetchval("SELECT clock_timestamp()")
    await memory.get_many(["a", "b"])
    end = await raw.fetchval("SELECT clock_timestamp()")
    await asyncio.sleep(2)
    await memory.close()
    rows = await raw.fetch("SELECT * FROM memory.memory_access ORDER BY id")
    slack = timedelta(seconds=1)
    assert start - slack <= rows[0]["last_accessed"] <= end + slack
    assert rows[1]["access_count"] == 8
    assert rows[1]["last_accessed"] > end + timedelta(hours=23)


async def test_many_processes_lose_no_count_and_do_not_deadlock(
    database: Database, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 0.005)
    ids = [f"m{n:02}" for n in range(30)]
    memories = [PostgresMemory(database.dsn, pool_max_size=2) for _ in range(6)]
    await add(memories[0], *ids)

    async def read(number: int, memory: PostgresMemory) -> None:
        for turn in range(25):
            order = ids if (number + turn) % 2 else ids[::-1]
            await memory.get_many(order)
        await memory.close()

    await asyncio.gather(*(read(number, memory) for number, memory in enumerate(memories)))
    assert await counts(raw) == dict.fromkeys(ids, 150)


@pytest.mark.usefixtures("soon")
async def test_touches_of_what_was_deleted_are_dropped(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record], caplog: pytest.LogCaptureFixture
) -> None:
    await add(memory, "a", "b")
    await memory.get_many(["a", "b"])
    await memory.delete("a")
    await until(raw, {"b": 1})
    assert not caplog.records


async def test_deleting_at_the_same_time_breaks_neither(
    database: Database,
    raw: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 0.001)
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for turn in range(15):
            ids = [f"{turn} {n}" for n in range(8)]
            await add(one, *ids)
            await asyncio.gather(*(two.get_many(ids) for _ in range(3)), *(one.delete(id_) for id_ in ids))
    assert not caplog.records
    assert await counts(raw) == {}


@pytest.mark.usefixtures("soon")
async def test_a_held_memory_is_counted_later_and_holds_nobody_up(
    database: Database, memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a", "b")
    async with raw.transaction():
        await raw.execute("SELECT FROM memory.memories WHERE id = 'a' FOR UPDATE")
        await memory.get_many(["a", "b"])
        await until(raw, {"b": 1})
    await until(raw, {"a": 1, "b": 1})
    async with raw.transaction():
        await raw.execute("SELECT FROM memory.memories WHERE id = 'a' FOR UPDATE")
        async with PostgresMemory(database.dsn, access_tracking="inline") as inline:
            await asyncio.wait_for(inline.get("a"), 5)


async def read_and_fail(memory: PostgresMemory) -> None:
    async with memory.transaction() as inside:
        await inside.get("a")
        await inside.add("fact", id="never committed")
        await inside.get("never committed")
        raise RuntimeError("rolled back")


@pytest.mark.parametrize("mode", ["batched", "inline"])
async def test_touches_in_a_transaction_are_written_after_the_fact(
    database: Database, raw: asyncpg.Connection[asyncpg.Record], mode: AccessTracking
) -> None:
    async with PostgresMemory(database.dsn, access_tracking=mode) as memory:
        await add(memory, "a")
        with pytest.raises(RuntimeError, match="rolled back"):
            await read_and_fail(memory)
        async with raw.transaction():
            await memory.search("fact", connection=raw)
            assert await counts(raw) == {}  # no row is locked until the caller commits
    assert await counts(raw) == {"a": 2}


@pytest.mark.parametrize("mode", ["batched", "inline"])
async def test_a_borrowed_pool_of_one_does_not_deadlock(
    database: Database,
    raw: asyncpg.Connection[asyncpg.Record],
    mode: AccessTracking,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 0.01)
    monkeypatch.setattr(_access, "CLOSING", 0.3)
    async with asyncio.timeout(20), asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool:
        memory = PostgresMemory(pool, access_tracking=mode)
        await add(memory, "a")
        await asyncio.gather(*(memory.get("a") for _ in range(10)))
        async with memory.transaction() as inside:
            await inside.get("a")
            await asyncio.sleep(0.1)  # the interval is over while there is no connection
            await inside.get("a")
        await until(raw, {"a": 12})
        async with pool.acquire() as held:  # whoever closes holds the only connection
            await memory.get("a", connection=held)
            await memory.close()
        assert "accesses to 1 memories were not counted" in caplog.text
        assert await pool.fetchval("SELECT 1") == 1


@pytest.mark.parametrize("mode", ["batched", "inline"])
async def test_cancelled_callers_take_nothing_with_them(
    database: Database,
    raw: asyncpg.Connection[asyncpg.Record],
    mode: AccessTracking,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 0.01)
    async with PostgresMemory(database.dsn, access_tracking=mode, pool_max_size=3) as memory:
        await add(memory, "a")
        for steps in range(60):
            task = asyncio.create_task(memory.get("a"))
            for _ in range(steps // 2):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
        before = (await counts(raw)).get("a", 0)
        assert before <= 60
        await asyncio.gather(*(memory.get("a") for _ in range(5)))
    assert (await counts(raw))["a"] >= before + 5


async def test_a_cancelled_writing_is_done_again(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 0.05)
    await add(memory, "a")
    async with raw.transaction():
        await raw.execute("LOCK memory.memory_access IN SHARE MODE")
        await memory.get("a")
        await asyncio.sleep(0.2)
        (writing,) = asyncio.all_tasks() - {cast("asyncio.Task[Any]", asyncio.current_task())}
        writing.cancel()
        await asyncio.wait({writing})
    await until(raw, {"a": 1})


async def test_a_cancelled_close_closes_and_leaves_no_task(
    database: Database, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_access, "INTERVAL", 0.05)
    for waits in (0, 0.2):
        memory = PostgresMemory(database.dsn)
        await memory.add("fact", id=f"{waits}")
        async with raw.transaction():
            await raw.execute("LOCK memory.memory_access IN SHARE MODE")
            await memory.get(f"{waits}")
            await asyncio.sleep(waits)
            closing = asyncio.create_task(memory.close())
            await asyncio.sleep(0.1)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await memory.close()


@pytest.mark.usefixtures("soon")
async def test_an_outage_delays_the_counts_and_memory_stays_bounded(
    database: Database,
    memory: PostgresMemory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_access, "MOST", 2)
    await add(memory, "a", "b", "c")
    toucher = memory._context.toucher
    assert toucher is not None
    await database.server.run(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS false')
    await database.server.run(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database.name}'"
    )
    await toucher.touch(["a", "b"], in_transaction=False)
    await asyncio.sleep(0.5)
    await toucher.touch(["a", "c"], in_transaction=False)
    said = [record for record in caplog.records if record.name == _access.__name__]
    assert len(said) == 1  # though it was tried several times
    await database.server.run(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS true')
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        # There is room for two: which one is kept besides depends on whether the first were being tried just then.
        await until(connection, {"a": 2, "b": 1}, {"a": 2, "c": 1})
        (kept,) = {"b", "c"} & set(await counts(connection))
        await memory.get("c")
        await until(connection, {"a": 2, "c": 2} if kept == "c" else {"a": 2, "b": 1, "c": 1})
    finally:
        await connection.close()


async def test_after_close_no_task_is_left_and_closing_again_is_fine(database: Database) -> None:
    memory = PostgresMemory(database.dsn)
    await memory.add("fact", id="a")
    await memory.get("a")
    await asyncio.gather(memory.close(), memory.close())
    await memory.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("closes", [True, False])
async def test_a_program_that_ends_warns_of_nothing(database: Database, closes: bool) -> None:
    program = f"""
import asyncio
from postgres_memory import PostgresMemory, _access
_access.INTERVAL = 0.02
async def main():
    memory = PostgresMemory({database.dsn!r})
    await memory.add("fact", id="a", on_conflict="ignore")
    for _ in range(5):
        await memory.get("a")
        await asyncio.sleep(0.015)
    if {closes}:
        await memory.close()
asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "always", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Task was destroyed" not in done.stderr
    assert "Toucher" not in done.stderr
    if closes:
        assert done.stderr == ""
