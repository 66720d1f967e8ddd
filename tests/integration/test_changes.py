"""The change feed: cursors, refusals, waking, ends, and the ways to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from itertools import islice

import asyncpg
import pytest

from postgres_memory import PostgresMemory, SyncPostgresMemory
from postgres_memory._sql.feed import payload
from postgres_memory.errors import (
    ChangesLostError,
    ChangesOffError,
    InvalidTypeError,
    InvalidValueError,
    UsageError,
)
from tests.conftest import Database

from .change_feeds import Follower, read
from .command import Outcome, caller

LONG = timedelta(days=1)
NOTHING = timedelta(microseconds=1)


async def ids(memory: PostgresMemory, since: str | None = None) -> list[str]:
    return [change.id for change in await read(memory, since)]


async def add(memory: PostgresMemory, *names: str) -> None:
    for name in names:
        await memory.add(name, id=name)


async def test_a_cursor_is_where_one_goes_on(memory: PostgresMemory) -> None:
    beginning = await memory.enable_changes()
    assert await read(memory, beginning) == []
    await add(memory, *"abc")
    changes = await read(memory)
    assert [change.id for change in changes] == ["a", "b", "c"]
    for place, change in enumerate(changes):
        assert await read(memory, change.cursor) == changes[place + 1 :]
    assert await memory.enable_changes() == beginning
    assert await read(memory, beginning) == changes


async def test_more_than_a_page(memory: PostgresMemory) -> None:
    await memory.enable_changes()
    await memory.add_many({"content": "x", "id": f"{number:04}"} for number in range(1201))
    assert await ids(memory) == [f"{number:04}" for number in range(1201)]


async def test_a_namespace_has_its_own(database: Database) -> None:
    async with (
        PostgresMemory(database.dsn, namespace="one") as one,
        PostgresMemory(database.dsn, namespace="two") as two,
    ):
        await one.enable_changes()
        with pytest.raises(ChangesOffError, match="'two' has no change feed") as caught:
            await read(two)
        assert caught.value.namespace == "two"
        await two.enable_changes()
        await add(one, "a")
        await add(two, "b")
        assert (await ids(one), await ids(two)) == (["a"], ["b"])
        with pytest.raises(InvalidValueError, match=r"^since: belongs to another namespace"):
            two.changes((await read(one))[0].cursor)


@pytest.mark.parametrize("since", ["", "x", "AAAA"])
async def test_what_is_no_cursor(memory: PostgresMemory, since: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^since: "):
        memory.changes(since)


async def test_what_is_refused(memory: PostgresMemory) -> None:
    await memory.enable_changes()
    with pytest.raises(InvalidTypeError, match=r"^since: "):
        memory.changes(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"^poll_interval: "):
        memory.changes(poll_interval=0)
    with pytest.raises(InvalidValueError, match=r"^older_than: "):
        await memory.prune_changes(timedelta(0))
    with pytest.raises(InvalidValueError, match=r"^batch_size: "):
        await memory.prune_changes(LONG, batch_size=0)
    alice = memory.as_principal("alice")
    with pytest.raises(UsageError, match="trusted backend"):
        alice.changes()
    async with memory.transaction() as inside:
        with pytest.raises(UsageError, match="outside of a transaction"):
            inside.changes()
    for verbs in (alice, inside):
        with pytest.raises(UsageError):
            await verbs.enable_changes()
        with pytest.raises(UsageError):
            await verbs.disable_changes()
        with pytest.raises(UsageError):
            await verbs.prune_changes(LONG)


async def test_turned_off_and_on_again_it_begins_anew(memory: PostgresMemory) -> None:
    await memory.enable_changes()
    await add(memory, "a")
    (change,) = await read(memory)
    assert await memory.disable_changes()
    assert not await memory.disable_changes()
    await add(memory, "b")
    with pytest.raises(ChangesOffError):
        await read(memory, change.cursor)
    await memory.enable_changes()
    with pytest.raises(ChangesLostError) as caught:
        await read(memory, change.cursor)
    assert (caught.value.namespace, caught.value.since) == ("default", change.cursor)
    await add(memory, "c")
    assert await ids(memory) == ["c"]


async def test_so_it_does_after_erase(memory: PostgresMemory) -> None:
    await memory.enable_changes()
    await add(memory, "a")
    (change,) = await read(memory)
    assert (await memory.erase("default")).changes == 1
    with pytest.raises(ChangesOffError):
        await read(memory)
    await memory.enable_changes()
    with pytest.raises(ChangesLostError):
        await read(memory, change.cursor)


async def test_a_cursor_that_the_database_is_not_at_yet(memory: PostgresMemory, database: Database) -> None:
    await memory.enable_changes()
    await add(memory, *"abc")
    last = (await read(memory))[-1].cursor
    raw = await asyncpg.connect(database.direct_dsn)
    await raw.execute(
        "ALTER TABLE memory.changes ALTER seq RESTART WITH 2; SELECT nextval('memory.changes_seq_seq')"
    )
    await raw.close()
    with pytest.raises(ChangesLostError, match="older copy"):
        await read(memory, last)


async def test_pruning(memory: PostgresMemory) -> None:
    beginning = await memory.enable_changes()
    await add(memory, *"abcde")
    changes = await read(memory)
    assert await memory.prune_changes(LONG) == 0
    await asyncio.sleep(0.6)
    await add(memory, "f")
    old, told = timedelta(seconds=0.5), list[int]()
    assert await memory.prune_changes(old, batch_size=2, dry_run=True, progress=told.append) == 5
    assert await memory.prune_changes(LONG, dry_run=True) == 0
    assert told == []
    assert await memory.prune_changes(old, batch_size=2, progress=told.append) == 5
    assert told == [2, 4, 5]
    assert await ids(memory) == ["f"]
    assert await ids(memory, changes[4].cursor) == ["f"]
    for lost in (beginning, *(change.cursor for change in changes[:4])):
        with pytest.raises(ChangesLostError):
            await read(memory, lost)


async def test_without_notify_who_follows_looks_now_and_then(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.enable_changes(notify=False)
    heard: list[object] = []
    raw = await asyncpg.connect(database.direct_dsn)
    await raw.add_listener("postgres_memory_changes", lambda *said: heard.append(said[-1]))
    follower = Follower(memory, poll_interval=0.1)
    await add(memory, "a")
    assert len(await follower.until(1)) == 1
    assert heard == []
    await memory.enable_changes()
    await add(memory, "b")
    assert len(await follower.until(2)) == 2
    await follower.stop()
    await raw.fetchval("SELECT 1")
    assert heard == [payload("memory", "default")]
    await raw.close()


async def test_on_a_borrowed_pool_no_connection_is_kept(database: Database) -> None:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool:
        memory = PostgresMemory(pool)
        await memory.enable_changes()
        follower = Follower(memory, poll_interval=0.1)
        await add(memory, "a", "b")
        assert [change.id for change in await follower.until(2)] == ["a", "b"]
        await follower.stop()


async def test_closing_ends_who_follows(database: Database) -> None:
    memory = PostgresMemory(database.dsn)
    await memory.enable_changes()
    follower = Follower(memory)
    await add(memory, "a")
    await follower.until(1)
    await memory.close()
    await asyncio.wait_for(follower.task, 10)


async def test_who_leaves_the_loop_keeps_nothing_open(memory: PostgresMemory, database: Database) -> None:
    await memory.enable_changes()
    await add(memory, "a", "b")
    raw = await asyncpg.connect(database.direct_dsn)
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    before = await raw.fetchval(count)
    changes = memory.changes()
    assert (await anext(changes)).id == "a"
    assert await raw.fetchval(count) == before + 1
    await changes.aclose()
    assert await raw.fetchval(count) == before
    assert memory._connecting.database.on_closing == set()
    await raw.close()


async def test_as_the_synchronous_class_has_it(database: Database) -> None:
    def use() -> None:
        with SyncPostgresMemory(database.dsn) as memory:
            beginning = memory.enable_changes()
            memory.add("x", id="a")
            memory.add("x", id="b")
            assert [change.id for change in memory.changes(beginning, follow=False)] == ["a", "b"]
            assert [change.id for change in islice(memory.changes(), 2)] == ["a", "b"]
            assert memory.disable_changes()

    await asyncio.to_thread(use)


async def test_the_commands(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = caller(monkeypatch, capsys)
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    await asyncio.to_thread(use_the_commands, call)


def use_the_commands(run: Callable[..., Outcome]) -> None:
    cursor = run("enable-changes").out.strip()
    assert json.loads(run("enable-changes", "--no-notify", "--json").out) == {"cursor": cursor}
    run("store", "tea", "--id", "a")
    run("store", "milk", "--id", "b")
    run("relate", "a", "b", "supports")
    printed = run("changes", "--since", cursor).out.splitlines()
    assert [line[21:] for line in printed] == [
        "added      a version 1",
        "added      b version 1",
        "related    a supports b",
    ]
    lines = [json.loads(line) for line in run("changes", "--json").out.splitlines()]
    assert [(line["kind"], line["id"], line["target_id"]) for line in lines] == [
        ("added", "a", None),
        ("added", "b", None),
        ("related", "a", "b"),
    ]
    assert run("changes", "--since", lines[1]["cursor"]).out.count("\n") == 1
    assert run("prune-changes", "--older-than", "1").out == "0 changes deleted\n"
    old = ("prune-changes", "--older-than", "0.00000001")
    assert run(*old, "--dry-run").out == "3 changes would be deleted\n"
    assert json.loads(run(*old, "--json").out) == {"dry_run": False, "changes": 3}
    lost = run("changes", "--since", cursor)
    assert (lost.status, "not there any more" in lost.err) == (1, True)
    assert run("changes", "--since", "x").status == 2
    assert json.loads(run("disable-changes", "--json").out) == {"was_on": True}
    assert run("disable-changes").out.endswith("' was off already\n")
    off = run("changes")
    assert (off.status, "postgres-memory enable-changes" in off.err) == (1, True)
