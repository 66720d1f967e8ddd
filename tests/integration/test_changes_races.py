"""Nothing is left out of a feed, and what happened to one memory comes in its order, whoever commits when."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from postgres_memory import Change, PostgresMemory
from postgres_memory.errors import ChangesLostError
from tests.conftest import Database

from .change_feeds import Follower, read, told

if TYPE_CHECKING:
    Raw = asyncpg.Connection[asyncpg.Record]


class RolledBackError(Exception):
    """Ends a transaction of a test."""


@pytest.fixture
async def raws(database: Database) -> AsyncIterator[list[Raw]]:
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(3):
            opened.append(await asyncpg.connect(database.direct_dsn))
            stack.push_async_callback(opened[-1].close)
        yield opened


async def begin(raw: Raw) -> int:
    """Begin a transaction that has an id, and return it."""
    await raw.execute("BEGIN")
    number: int = await raw.fetchval("SELECT pg_current_xact_id()::text::bigint")
    return number


async def test_who_commits_late_is_waited_for(memory: PostgresMemory, raws: list[Raw]) -> None:
    await memory.enable_changes()
    follower = Follower(memory)
    late, *_ = raws
    await begin(late)
    await memory.add("late", id="late", connection=late)
    await memory.add("early", id="early")
    await asyncio.sleep(0.5)
    assert follower.changes == []
    await late.execute("COMMIT")
    assert [change.id for change in await follower.until(2)] == ["late", "early"]
    await follower.stop()


async def test_ids_behind_the_end_of_a_snapshot_are_waited_for(
    memory: PostgresMemory, raws: list[Raw]
) -> None:
    """The last transaction that is over has a smaller id than one that drew its number before."""
    await memory.enable_changes()
    first, last, _ = raws
    assert await begin(first) < await begin(last)
    await memory.add("late", id="late", connection=last)
    await memory.add("early", id="early", connection=first)
    await first.execute("COMMIT")
    follower = Follower(memory, poll_interval=0.05)
    await asyncio.sleep(0.5)
    assert follower.changes == []
    await last.execute("COMMIT")
    assert [change.id for change in await follower.until(2)] == ["late", "early"]
    await follower.stop()


async def test_a_version_by_a_smaller_transaction_id_comes_after_the_one_before(
    memory: PostgresMemory, raws: list[Raw]
) -> None:
    """With one between them that is still open: the older version's writer has the largest id of the three."""
    await memory.enable_changes()
    await memory.add("tea", id="a")
    small, between, large = raws
    assert await begin(small) < await begin(between) < await begin(large)
    await memory.update("a", importance=0.2, connection=large)
    await large.execute("COMMIT")
    await memory.update("a", importance=0.3, connection=small)
    await small.execute("COMMIT")
    follower = Follower(memory, poll_interval=0.05)
    await asyncio.sleep(0.3)
    versions = [change.version for change in follower.changes]
    assert versions == [1, 2, 3][: len(versions)]
    await between.execute("COMMIT")
    assert [change.version for change in await follower.until(3)] == [1, 2, 3]
    await follower.stop()


async def test_what_is_rolled_back_is_not_told(memory: PostgresMemory, raws: list[Raw]) -> None:
    since = await memory.enable_changes()
    raw, *_ = raws
    await begin(raw)
    await memory.add("no", connection=raw)
    await memory.add("yes", id="yes")
    await raw.execute("ROLLBACK")
    assert [change.id for change in await read(memory, since)] == ["yes"]


async def write(memory: PostgresMemory, chance: random.Random, ids: Sequence[str]) -> None:
    """Run a transaction of some updates, open for some time, that may be rolled back."""
    async with AsyncExitStack() as stack:
        inside = await stack.enter_async_context(memory.transaction())
        for id_ in sorted(chance.sample(ids, chance.randint(1, 2))):
            await inside.update(id_, importance=chance.random())
            await asyncio.sleep(chance.choice((0, 0, 0.005, 0.02)))
        await inside.add("new", importance=chance.random())
        if chance.random() < 0.2:
            raise RolledBackError
        await asyncio.sleep(chance.choice((0, 0.01, 0.03)))


def check_order(changes: Sequence[Change]) -> None:
    """Each memory's versions come in their order, and none of them is missing."""
    versions: dict[str, list[int | None]] = defaultdict(list)
    for change in changes:
        versions[change.id].append(change.version)
    for id_, found in versions.items():
        assert found == list(range(1, len(found) + 1)), id_


@pytest.mark.parametrize("seed", range(3))
async def test_writers_at_once(database: Database, raws: list[Raw], seed: int) -> None:
    chance = random.Random(seed)
    ids = [f"memory {number}" for number in range(4)]
    async with (
        PostgresMemory(database.dsn, pool_max_size=8) as memory,
        PostgresMemory(database.dsn) as reader,
    ):
        since = await memory.enable_changes()
        follower = Follower(reader, since, poll_interval=0.2)
        for id_ in ids:
            await memory.add(id_, id=id_)

        async def writer(own: random.Random) -> None:
            for _ in range(15):
                with suppress(RolledBackError):
                    await write(memory, own, ids)

        async def killer(own: random.Random) -> None:
            for _ in range(8):
                await asyncio.sleep(own.random() * 0.1)
                await raws[0].execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND query LIKE '%pg_sequence_last_value%' "
                    "AND pid <> pg_backend_pid()"
                )

        await asyncio.gather(killer(chance), *(writer(random.Random(chance.random())) for _ in range(6)))
        rows = await raws[0].fetch("SELECT id, version FROM memory.memories")
        expected = Counter((row["id"], number) for row in rows for number in range(1, row["version"] + 1))
        changes = await follower.until(sum(expected.values()))
        assert Counter((change.id, change.version) for change in changes) == expected
        check_order(changes)
        await follower.stop()
        assert [change.cursor for change in await read(memory, since)] == [
            change.cursor for change in changes
        ]
        for place in range(0, len(changes), 7):
            rest = await read(memory, changes[place].cursor)
            assert told(rest) == told(changes[place + 1 :])


async def test_resuming_over_and_over_while_others_write(database: Database, raws: list[Raw]) -> None:
    """A reader that begins anew behind each change misses none and is told none twice."""
    async with PostgresMemory(database.dsn, pool_max_size=8) as memory:
        since = await memory.enable_changes()
        ids = [f"memory {number}" for number in range(3)]
        for id_ in ids:
            await memory.add(id_, id=id_)
        chance = random.Random(7)

        async def writer(own: random.Random) -> None:
            for _ in range(8):
                with suppress(RolledBackError):
                    await write(memory, own, ids)

        writing = asyncio.gather(*(writer(random.Random(chance.random())) for _ in range(5)))
        changes: list[Change] = []
        while True:
            was_over = writing.done()
            found = [
                change
                async for change in memory.changes(changes[-1].cursor if changes else since, follow=False)
            ]
            taken = found[: chance.randint(1, 5)]
            changes += taken
            if was_over and not found:
                break
        await writing
        rows = await raws[0].fetch("SELECT id, version FROM memory.memories")
        expected = Counter((row["id"], number) for row in rows for number in range(1, row["version"] + 1))
        assert Counter((change.id, change.version) for change in changes) == expected
        check_order(changes)


async def test_turning_it_on_waits_for_who_may_not_know(memory: PostgresMemory, raws: list[Raw]) -> None:
    """Whoever began before writes without a word, and is over when it returns."""
    raw, *_ = raws
    await raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await raw.fetchval("SELECT count(*) FROM memory.memories")
    enabling = asyncio.create_task(memory.enable_changes())
    await asyncio.sleep(0.4)
    assert not enabling.done()
    await memory.add("unseen", id="unseen", connection=raw)
    await raw.execute("COMMIT")
    since = await asyncio.wait_for(enabling, 30)
    await memory.add("seen", id="seen")
    assert [change.id for change in await read(memory, since)] == ["seen"]


async def test_while_it_is_turned_on_writes_go_on(database: Database) -> None:
    """Whatever begins after it returned is told of, by objects that stored without a feed until then."""
    async with PostgresMemory(database.dsn, pool_max_size=8) as memory, PostgresMemory(database.dsn) as other:
        began: list[tuple[float, str]] = []
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def writer(name: int) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                id_ = f"{name} {number}"
                began.append((loop.time(), id_))
                if name % 2:
                    await memory.add(id_, id=id_)
                else:
                    await memory.add_many([{"content": id_, "id": id_}])

        writing = asyncio.gather(*(writer(name) for name in range(4)))
        await asyncio.sleep(0.3)
        since = await other.enable_changes()
        returned = loop.time()
        await asyncio.sleep(0.3)
        stop.set()
        await writing
        changes = {change.id for change in await read(other, since)}
        wanted = {id_ for when, id_ in began if when >= returned}
        assert wanted
        assert wanted <= changes


async def test_pruning_leaves_no_silent_gap(database: Database) -> None:
    """A reader that is slower than pruning is told so, and has seen all until then."""
    async with PostgresMemory(database.dsn) as memory:
        since = await memory.enable_changes()
        seen: list[Change] = []

        async def prune() -> None:
            while not stop.is_set():
                await memory.prune_changes(timedelta(seconds=0.1), batch_size=3)
                await asyncio.sleep(0.01)

        async def follow() -> None:
            async for change in memory.changes(since, poll_interval=0.05):
                seen.append(change)
                await asyncio.sleep(0.002 if len(seen) < 700 else 0.5)

        stop = asyncio.Event()
        pruning = asyncio.create_task(prune())
        following = asyncio.create_task(follow())
        for number in range(30):
            await memory.add_many([{"content": "x", "id": f"{number:03} {place:03}"} for place in range(40)])
            await asyncio.sleep(0.02)
        with pytest.raises(ChangesLostError):
            await asyncio.wait_for(following, 60)
        stop.set()
        await pruning
        ids = [change.id for change in seen]
        written = [f"{number:03} {place:03}" for number in range(30) for place in range(40)]
        assert ids == written[: len(ids)]
        assert len(ids) < len(written)


async def test_what_commits_late_is_not_pruned_before_it_is_there(
    memory: PostgresMemory, raws: list[Raw]
) -> None:
    await memory.enable_changes()
    raw, *_ = raws
    await begin(raw)
    await memory.add("late", id="late", connection=raw)
    for number in range(3):
        await memory.add("early", id=f"early {number}")
    await asyncio.sleep(0.2)
    pruning = asyncio.create_task(memory.prune_changes(timedelta(seconds=0.1)))
    await asyncio.sleep(0.3)
    assert not pruning.done()
    await raw.execute("COMMIT")
    assert await pruning == 4
    assert await read(memory) == []
