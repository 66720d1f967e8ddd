"""Every verb, cancelled wherever it waits: once, again at the next place, and over and over."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import asyncpg
import pytest

from postgres_memory import PostgresMemory, PostgresSession, _access
from postgres_memory.errors import DatabaseError

from ..conftest import Database
from ..embedders import WordEmbedder
from .campaign import listened
from .reads import READS
from .suspensions import Moment, cancelled
from .waiting import until
from .writes import WRITES, Act, furnish, state

State = list[tuple[Any, ...]]

#: Which suspensions are cancelled, from the first on.
_HOW: tuple[tuple[Callable[[int, int], bool], Moment], ...] = (
    (lambda first, number: number == first, "waiting"),
    (lambda first, number: number == first, "answered"),
    (lambda first, number: first <= number <= first + 1, "waiting"),
    (lambda first, number: number >= first, "waiting"),
)


def _plates(memory: PostgresMemory, number: int = 25) -> Awaitable[Any]:
    return memory.add_many([f"plate {n}" for n in range(number)], batch_size=10)


#: What is written in batches may be there up to one of them.
_BATCHES: dict[str, Act] = {f"add_many, {n}": partial(_plates, number=n) for n in (10, 20)}

_OPEN = """
SELECT pid, state, query FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_EMPTY = """
DELETE FROM memory.memories; DELETE FROM memory.session_messages; DELETE FROM memory.idempotency_keys;
DELETE FROM memory.namespace_settings
"""


@dataclass
class Bench:
    """A database with something in it, watched over a connection of its own."""

    dsn: str
    watcher: asyncpg.Connection[asyncpg.Record]
    memory: PostgresMemory
    session: PostgresSession
    complaints: list[dict[str, Any]]
    trials: int = 0

    async def furnish(self) -> State:
        await self.watcher.execute(_EMPTY)
        await furnish(self.memory, self.session)
        return await self.state()

    async def state(self) -> State:
        return await state(self.watcher, "default")

    async def after(self, act: Act) -> State:
        """What there is after ``act``, undisturbed."""
        await self.furnish()
        async with PostgresMemory(self.dsn, access_tracking="off") as memory:
            await act(memory)
        return await self.state()

    async def at_rest(self, memory: PostgresMemory, *, connections: int | None = None) -> None:
        """Nothing is left of a call: no task, no connection, no transaction."""
        self.trials += 1
        await until(lambda: len(asyncio.all_tasks()) == 1, pause=0)
        counts = memory._context.database.pool_counts()
        assert counts is None or counts.in_use == 0
        sessions = await self.watcher.fetch(_OPEN)
        for _ in range(500):
            busy = [session for session in sessions if session["state"] != "idle"]
            if not busy and (connections is None or len(sessions) == connections):
                break
            await asyncio.sleep(0.01)
            sessions = await self.watcher.fetch(_OPEN)
        else:
            raise AssertionError(f"left open: {sessions}")
        assert self.complaints == []


@pytest.fixture
async def bench(database: Database) -> AsyncIterator[Bench]:
    pool = asyncpg.create_pool(database.dsn, min_size=0, max_size=1)
    watcher = await asyncpg.connect(database.direct_dsn)
    async with pool, PostgresMemory(pool, access_tracking="off") as memory:
        made = Bench(database.dsn, watcher, memory, PostgresSession(pool, "talk"), listened())
        yield made
    await watcher.close()
    gc.collect()  # what was never awaited or never retrieved says so now
    assert made.complaints == []
    assert made.trials > 0


async def _everywhere(
    attempt: Callable[[Callable[[int], bool], Moment], Awaitable[bool]],
) -> None:
    """Run ``attempt`` for every first suspension, until it is not reached any more."""
    for how, moment in _HOW:
        first = 1
        while await attempt(partial(how, first), moment):
            first += 1
        assert first > 1


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_happens_or_not(bench: Bench, verb: str) -> None:
    states = [await bench.after(WRITES[verb])]
    if verb == "add_many":
        states += [await bench.after(act) for act in _BATCHES.values()]
    before = await bench.furnish()
    states.append(before)
    async with PostgresMemory(bench.dsn, access_tracking="off") as memory:

        async def attempt(chosen: Callable[[int], bool], moment: Moment) -> bool:
            reached = await cancelled(WRITES[verb](memory), chosen, moment)
            await bench.at_rest(memory)
            found = await bench.state()
            if verb == "erase":  # table after table, each in a transaction of its own
                assert all(row in before or row in states[0] for row in found)
            else:
                assert found in states
            if found != before:
                assert await bench.furnish() == before
            assert len(await memory.search("the milk is here", limit=1)) == 1
            return reached

        await _everywhere(attempt)
        await memory.store("and on it goes")


#: What is made of transactions of its own, or begins at the whole memory.
_OUTSIDE = {
    "purge_expired",
    "transaction",
    *(verb for verb in WRITES if verb.startswith(("principal", "erase"))),
}


@pytest.mark.parametrize("verb", sorted(WRITES.keys() - _OUTSIDE))
async def test_a_write_inside_a_transaction_happens_or_not(bench: Bench, verb: str) -> None:
    """Who catches the cancellation and commits what was before it commits nothing of the call, or all."""
    stored = "the saucer is here"

    async def act(memory: PostgresMemory) -> None:
        async with memory.transaction() as inside:
            await inside.store(stored)
            await WRITES[verb](cast(PostgresMemory, inside))

    async def only_the_rest(memory: PostgresMemory) -> None:
        await memory.store(stored)

    states = [await bench.after(act), await bench.after(only_the_rest)]
    if verb == "add_many":
        for size in (10, 20):

            async def act_in_part(memory: PostgresMemory, size: int = size) -> None:
                await memory.store(stored)
                await _BATCHES[f"add_many, {size}"](memory)

            states.append(await bench.after(act_in_part))
    before = await bench.furnish()
    async with PostgresMemory(bench.dsn, access_tracking="off") as memory:

        async def attempt(chosen: Callable[[int], bool], moment: Moment) -> bool:
            reached = committed = False
            # Where it was a statement without a savepoint that was cancelled, the transaction is over.
            with suppress(DatabaseError):
                async with memory.transaction() as inside:
                    await inside.store(stored)
                    reached = await cancelled(WRITES[verb](cast(PostgresMemory, inside)), chosen, moment)
                committed = True
            await bench.at_rest(memory)
            found = await bench.state()
            assert found in states if committed else found == before
            if found != before:
                assert await bench.furnish() == before
            return reached or not committed

        await _everywhere(attempt)
        await memory.store("and on it goes")


@pytest.mark.parametrize("tracking", ["inline", "batched"])
@pytest.mark.parametrize("verb", READS)
async def test_a_read_leaves_nothing(
    bench: Bench, verb: str, tracking: _access.AccessTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each call writes the accesses that it counts."""
    monkeypatch.setattr(_access, "ENOUGH", 1)
    before = await bench.furnish()
    async with PostgresMemory(bench.dsn, access_tracking=tracking) as memory:

        async def attempt(chosen: Callable[[int], bool], moment: Moment) -> bool:
            reached = await cancelled(READS[verb](memory), chosen, moment)
            await bench.at_rest(memory)
            return reached

        await _everywhere(attempt)
        assert await bench.state() == before
        await memory.store("and on it goes")


_OPENINGS: dict[str, Act] = {
    "open": lambda m: m.open(),
    "store": lambda m: m.store("tea"),
    "transaction": WRITES["transaction"],
    "health": lambda m: m.health(),
}


@pytest.mark.parametrize("verb", _OPENINGS)
async def test_a_first_call_leaves_nothing(bench: Bench, verb: str) -> None:
    await bench.furnish()

    async def attempt(chosen: Callable[[int], bool], moment: Moment) -> bool:
        memory = PostgresMemory(bench.dsn, pool_min_size=2)
        reached = await cancelled(_OPENINGS[verb](memory), chosen, moment)
        await bench.at_rest(memory)
        assert len(await memory.search("the milk is here", limit=1)) == 1
        await memory.close()
        await bench.at_rest(memory, connections=1)
        return reached

    await _everywhere(attempt)


@pytest.mark.parametrize("busy", [False, True])
async def test_closing(bench: Bench, busy: bool) -> None:
    """A close that is cancelled has closed what it came to, and a second one the rest."""
    await bench.furnish()

    async def attempt(chosen: Callable[[int], bool], moment: Moment) -> bool:
        memory = PostgresMemory(bench.dsn, pool_max_size=1)
        await memory.get("tea")
        calls = [asyncio.create_task(memory.count()) for _ in range(3 * busy)]
        await asyncio.sleep(0)
        reached = await cancelled(memory.close(), chosen, moment)
        await asyncio.gather(*calls, return_exceptions=True)
        await memory.close()
        await bench.at_rest(memory, connections=1)
        return reached

    await _everywhere(attempt)


_SPACES: dict[str, Act] = {
    "store": lambda m: m.store("the spoon is here"),
    "add_many": _plates,
    "update": lambda m: m.update("tea", content="the green tea is here"),
    "embed_pending": lambda m: m.embed_pending(batch_size=3),
    "reembed": lambda m: m.reembed("others", embedder=WordEmbedder("others", 4), batch_size=3),
    "drop_space": lambda m: m.drop_space("others"),
    "create_index": lambda m: m.create_index("words", progress=lambda *_: None),
    "drop_index": lambda m: m.drop_index("words"),
    "search": lambda m: m.search("tea"),
    "recall": lambda m: m.recall("the tea"),
}


_BEFORE = {
    "embed_pending": "DELETE FROM memory.memory_embeddings",
    "drop_space": "INSERT INTO memory.embedding_spaces (namespace, name, dimensions, distance, status) "
    "VALUES ('default', 'others', 4, 'cosine', 'filling') ON CONFLICT DO NOTHING",
}


@pytest.mark.parametrize("verb", _SPACES)
async def test_embedding_leaves_nothing(bench: Bench, verb: str) -> None:
    await bench.furnish()
    async with PostgresMemory(bench.dsn, embedder=WordEmbedder(), access_tracking="off") as memory:
        await memory.embed_pending()

        async def attempt(chosen: Callable[[int], bool], moment: Moment) -> bool:
            await bench.watcher.execute(_BEFORE.get(verb, "SELECT"))
            reached = await cancelled(_SPACES[verb](memory), chosen, moment)
            await bench.at_rest(memory)
            return reached

        await _everywhere(attempt)
        await memory.store("and on it goes")


async def test_the_writing_of_accesses_is_nobodys(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins inside of a call, and goes on when that is cancelled."""
    monkeypatch.setattr(_access, "ENOUGH", 1)
    await bench.furnish()
    touches: list[asyncio.Task[Any]] = []
    async with PostgresMemory(bench.dsn) as memory:
        toucher = memory._context.toucher
        assert toucher is not None

        class Noting(_access.Toucher):
            async def touch(self, ids: Any, *, in_transaction: bool) -> None:
                assert toucher is not None
                await toucher.touch(ids, in_transaction=in_transaction)
                assert toucher._writing is not None
                touches.append(toucher._writing)
                await asyncio.Event().wait()

        memory._context = replace(memory._context, toucher=Noting(toucher._write))
        for _ in range(3):
            call = asyncio.create_task(memory.get("tea"))
            await until(lambda: bool(touches))
            call.cancel()
            await asyncio.wait([call])
            writing = touches.pop()
            await asyncio.wait([writing])
            assert not writing.cancelled()
        await bench.at_rest(memory)
    count = await bench.watcher.fetchval("SELECT sum(access_count) FROM memory.memory_access")
    assert count == 3
