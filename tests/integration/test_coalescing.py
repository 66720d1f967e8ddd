"""Concurrent `store` and `add` calls go together, and each caller is told what it would be told alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import MemoryPermissions, MemoryRecord, MemoryType, PostgresMemory
from postgres_memory._writing import coalescing, room
from postgres_memory._writing import rows as rows_
from postgres_memory.errors import (
    ClosedError,
    ConflictError,
    DatabaseError,
    DatabaseTimeoutError,
    IdempotencyConflictError,
    InvalidEmbeddingError,
    InvalidInputError,
    InvalidValueError,
    NotFoundError,
)
from postgres_memory.postgres import Verbs

from ..conftest import Database
from ..embedders import WordEmbedder, embeddings
from .proxy import proxied

_STATE = """
SELECT m.content, m.metadata, m.tags, m.owner, m.readers, m.writers, m.created_at < '2021-01-01' AS dated,
    date_trunc('year', m.expires_at) AS expires, m.memory_type, m.importance, m.thread_id,
    m.place - min(m.place) OVER (PARTITION BY m.thread_id) AS place, m.expires_at IS NULL AS lasting, m.version,
    h.embedding::text AS counts, h.status, h.expires_at IS NOT DISTINCT FROM m.expires_at AS alike
FROM memory.memories m JOIN memory.memory_hash_embeddings h USING (namespace, seq) WHERE namespace = $1 ORDER BY seq
"""

#: What a database of the user's may refuse, of one row among others.
_REFUSE = "ALTER TABLE memory.memories ADD CONSTRAINT users_own CHECK (content NOT LIKE 'bad%')"

#: A row that takes its time: it waits for a lock that the watcher holds.
_HOLD_UP = """
CREATE FUNCTION public.hold_up() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(4711); RETURN NEW; END $$;
CREATE TRIGGER hold_up BEFORE INSERT ON memory.memories FOR EACH ROW
    WHEN (NEW.content LIKE 'slow%') EXECUTE FUNCTION public.hold_up()
"""


@pytest.fixture
async def watcher(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def memory(database: Database) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn) as opened:
        yield opened


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The contents that go together, one list for each statement."""
    contents: list[list[str]] = []

    async def noting(context: Any, rows: Any) -> list[Any]:
        contents.append([row.content for row in rows])
        return await rows_.write_rows(context, rows)

    monkeypatch.setattr(coalescing, "write_rows", noting)
    return contents


async def contents_of(watcher: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    rows = await watcher.fetch("SELECT content FROM memory.memories ORDER BY seq")
    return [row["content"] for row in rows]


async def test_sixty_four_stores_take_two_round_trips(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the first call's flight would lose its patience, and others start beside it.
    monkeypatch.setattr(coalescing, "PATIENCE", 60.0)
    async with proxied(database) as proxy, PostgresMemory(proxy.dsn) as memory:
        for _ in range(2):
            proxy.round_trips = 0
            await asyncio.gather(*(memory.store(f"tea {number}") for number in range(64)))
        assert proxy.round_trips == 2  # the first call, at once, and the others


async def test_a_call_that_comes_alone_is_written_at_once(
    memory: PostgresMemory, written: list[list[str]]
) -> None:
    for number in range(5):
        await memory.store(f"tea {number}")
    assert written == []


@pytest.mark.parametrize("tasks", [2, 16, 64, 300])
async def test_they_keep_the_order_of_the_calls(
    memory: PostgresMemory,
    watcher: asyncpg.Connection[asyncpg.Record],
    tasks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A flight that takes longer holds up nobody, so that on a busy machine others may pass it.
    monkeypatch.setattr(coalescing, "PATIENCE", 60.0)
    called: list[str] = []

    async def one(number: int) -> None:
        chance = random.Random(number)
        for turn in range(6):
            content = f"tea {number} {turn}"
            called.append(content)
            await (memory.store(content) if number % 3 else memory.add(content, tags=["a"]))
            await asyncio.sleep(chance.choice((0, 0, 0.01)))

    await asyncio.gather(*map(one, range(tasks)))
    assert await contents_of(watcher) == called


async def test_a_record_is_returned_as_it_is_stored(memory: PostgresMemory) -> None:
    odd = ['a "quoted" one', "back\\slash", "{braces, commas}", "two\nlines", "NULL", "ü"]
    calls = [
        memory.add(
            f"tea {number}",
            tags=odd[: number % 7],
            metadata={"n": number},
            thread_id="t" if number % 2 else None,
            memory_type=MemoryType.SYNTHETIC,
            importance=number / 100,
        )
        for number in range(40)
    ]
    records = [record for record in await asyncio.gather(*calls, memory.store("milk")) if record is not None]
    assert [await memory.get(record.id) for record in records] == records
    assert (await memory.verify()).differences == ()


class _Racers:
    """Good and bad calls at once; each knows what its caller must be told."""

    def __init__(self, memory: PostgresMemory) -> None:
        self._memory = memory

    async def good(self, number: int) -> None:
        assert (await self._memory.add(f"good {number}")).content == f"good {number}"
        await self._memory.store(f"stored {number}")

    async def refused(self, number: int) -> None:
        with pytest.raises(DatabaseError, match="users_own") as caught:
            await self._memory.store(f"bad {number}")
        assert (caught.value.sqlstate, caught.value.nothing_written) == ("23514", True)

    async def invalid(self, number: int) -> None:
        with pytest.raises(InvalidValueError, match="content"):
            await self._memory.store(f"{number}\0")

    async def unrelated(self, number: int) -> None:
        with pytest.raises(NotFoundError):
            await self._memory.add(f"related {number}", derived_from=["nobody"])

    async def same_id(self, number: int) -> str:
        try:
            await self._memory.add(f"named {number}", id="one")
        except ConflictError as error:
            return f"conflict with {error.id}"
        return "stored"

    async def same_content(self, number: int) -> str:
        return (await self._memory.add("deduped", dedupe="content", importance=number / 100)).id

    async def same_key(self, number: int) -> str:
        content = f"keyed {number % 2}"
        try:
            return (await self._memory.add(content, idempotency_key="k")).content
        except IdempotencyConflictError:
            return "conflict"


async def test_good_and_bad_rows_race(
    memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    await watcher.execute(_REFUSE)
    racers, each = _Racers(memory), 9
    kinds: list[Callable[[int], Awaitable[Any]]] = [
        racers.good,
        racers.refused,
        racers.invalid,
        racers.unrelated,
        racers.same_id,
        racers.same_content,
        racers.same_key,
    ]
    calls = [(kind, number) for number in range(each) for kind in kinds]
    random.Random(1).shuffle(calls)
    told = await asyncio.gather(*(kind(number) for kind, number in calls))

    def answers(kind: Callable[[int], Awaitable[Any]]) -> Counter[Any]:
        return Counter(answer for (other, _), answer in zip(calls, told, strict=True) if other == kind)

    assert answers(racers.same_id) == {"stored": 1, "conflict with one": each - 1}
    assert len(answers(racers.same_content)) == 1
    assert set(answers(racers.same_key)) in ({"keyed 0", "conflict"}, {"keyed 1", "conflict"})
    contents = Counter(await contents_of(watcher))
    kept = {content: count for content, count in contents.items() if content.startswith(("good", "stored"))}
    assert kept == dict.fromkeys([f"{kind} {n}" for kind in ("good", "stored") for n in range(each)], 1)
    assert sorted(set(contents) - set(kept)) == sorted(
        ["deduped", *(c for c in contents if c.startswith(("named", "keyed")))]
    )
    assert len(contents) == 2 * each + 3
    assert max(contents.values()) == 1


@pytest.mark.parametrize("size", [5, 40])
async def test_a_bad_row_keeps_its_neighbours_and_their_order(
    memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record], size: int
) -> None:
    await watcher.execute(_REFUSE)
    names = [f"{'bad' if number in (2, 4) else 'good'} {number}" for number in range(size)]
    outcomes = await asyncio.gather(*map(memory.store, names), return_exceptions=True)
    assert [isinstance(outcome, DatabaseError) for outcome in outcomes] == [
        name.startswith("bad") for name in names
    ]
    errors = [outcome for outcome in outcomes if outcome is not None]
    assert len(set(map(id, errors))) == len(errors)
    assert await contents_of(watcher) == [name for name in names if name.startswith("good")]


async def test_what_an_index_of_the_users_refuses_is_an_error(
    memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    await watcher.execute("CREATE UNIQUE INDEX users_own ON memory.memories (namespace, content)")
    contents = ["tea", "milk", "tea", "sugar", "tea"]
    outcomes = await asyncio.gather(*map(memory.store, contents), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [DatabaseError, DatabaseError]
    assert await contents_of(watcher) == ["tea", "milk", "sugar"]
    with pytest.raises(DatabaseError, match="users_own"):
        await memory.store("tea")


_METADATA = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
_FIELDS = st.fixed_dictionaries(
    {"content": st.text(max_size=40)},
    optional={
        "metadata": _METADATA,
        "tags": st.lists(st.text(min_size=1, max_size=3), max_size=3),
        "thread_id": st.sampled_from(["t", "u"]),
        "importance": st.floats(0, 1),
        "memory_type": st.sampled_from(MemoryType),
        "id": st.sampled_from(["one", "two"]),
        "dedupe": st.just("content"),
        "permissions": st.just(MemoryPermissions("alice", ("ben", "*"), ('c"d',))),
        "created_at": st.just(datetime(2020, 5, 1, tzinfo=UTC)),
        "expires_at": st.just(datetime(2100, 5, 1, tzinfo=UTC)),
    },
)
_Call = dict[str, Any]


async def _told(memory: PostgresMemory, call: _Call) -> object:
    """What the caller learns, but for ids and times."""
    try:
        if call.keys() <= {"content", "metadata"}:
            await memory.store(**call)
            return None
        record = await memory.add(**call)
    except InvalidInputError as error:
        return type(error), error.argument
    assert isinstance(record, MemoryRecord)
    return record.content, record.metadata, record.tags, record.thread_id, record.embedding, record.version


def _unordered(rows: list[asyncpg.Record]) -> list[str]:
    """What may meet others goes by itself, at the same time: its place among the others is anybody's."""
    return sorted(repr({name: value for name, value in row.items() if name != "place"}) for row in rows)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(_FIELDS, max_size=12))
async def test_together_is_as_one_by_one(database: Database, calls: list[_Call]) -> None:
    """But for what meets others: which of two that want one id or content comes first is anybody's."""
    met = Counter(call["content"] for call in calls if "dedupe" in call)
    met.update(call["id"] for call in calls if "id" in call)
    calls = [call for call in calls if max(met[call["content"]], met[call.get("id", "")]) < 2]
    watcher = await asyncpg.connect(database.direct_dsn)
    try:
        await watcher.execute("DELETE FROM memory.memories")
        told: list[Sequence[object]] = []
        for namespace in ("together", "one by one"):
            async with PostgresMemory(
                database.dsn, namespace=namespace, session_ttl=timedelta(hours=1)
            ) as memory:
                if namespace == "together":
                    told.append(await asyncio.gather(*(_told(memory, call) for call in calls)))
                else:
                    told.append([await _told(memory, call) for call in calls])
        assert told[0] == told[1]
        state = [await watcher.fetch(_STATE, namespace) for namespace in ("together", "one by one")]
        if not any(call.keys() & {"id", "dedupe"} for call in calls):
            assert state[0] == state[1]
        assert _unordered(state[0]) == _unordered(state[1])
    finally:
        await watcher.close()


async def test_an_embedder_gets_the_batch_and_one_bad_text_waits_alone(database: Database) -> None:
    embedder = WordEmbedder()
    embedder.fails = lambda texts: "bad text" in texts
    async with PostgresMemory(database.dsn, embedder=embedder) as memory:
        await memory.store("first")
        embedder.asked.clear()
        await asyncio.gather(*map(memory.store, ["a b", "c d", "e f", "g h"]))
        assert embedder.asked == [["a b"], ["c d", "e f", "g h"]]
        await asyncio.gather(*map(memory.store, ["i j", "k l", "bad text", "m n"]))
        found = await embeddings(database)
        assert [content for content, vector in found.items() if vector is None] == ["bad text"]
        assert list(found) == ["first", "a b", "c d", "e f", "g h", "i j", "k l", "bad text", "m n"]
        embedder.fails = lambda _: False
        assert (await memory.embed_pending()).embedded == 1


async def test_an_embedding_that_cannot_be_stored_is_its_callers_error(database: Database) -> None:
    class Odd(WordEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            vectors = await super().embed(texts)
            return [
                [float("nan")] * 8 if text == "odd" else v for text, v in zip(texts, vectors, strict=True)
            ]

    async with PostgresMemory(database.dsn, embedder=Odd()) as memory:
        await memory.store("first")
        calls = map(memory.store, ["a b", "c d", "odd", "e f"])
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            type(None),
            InvalidEmbeddingError,
            type(None),
        ]
    assert all(vector is not None for vector in (await embeddings(database)).values())
    assert "odd" not in await embeddings(database)


async def test_no_other_call_goes_with_them(
    memory: PostgresMemory, database: Database, written: list[list[str]]
) -> None:
    """Not those of a transaction, of the caller's connection or of a principal, nor what may meet others."""

    async def crowd(one: Callable[[int], Awaitable[Any]]) -> None:
        await asyncio.gather(*map(one, range(4)))

    async with memory.transaction() as inside:
        await crowd(lambda n: inside.store(f"inside {n}"))
    connection = await asyncpg.connect(database.dsn)
    for number in range(2):
        await memory.store(f"mine {number}", connection=connection)
    await connection.close()
    for name in ("alice", "ben"):
        await crowd(lambda n, name=name: memory.as_principal(name).store(f"{name}'s {n}"))  # type: ignore[misc]
    await crowd(lambda n: memory.add(f"named {n}", id=f"{n}"))
    await crowd(lambda n: memory.add(f"deduped {n}", dedupe="content"))
    await crowd(lambda n: memory.add(f"keyed {n}", idempotency_key=f"{n}"))
    await crowd(lambda n: memory.add(f"related {n}", derived_from=["1"]))
    assert written == []
    await crowd(lambda n: memory.store(f"stored {n}"))
    assert written == [["stored 1", "stored 2", "stored 3"]]


async def test_namespaces_do_not_mix(
    memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    others = [Verbs(replace(memory._context, namespace=name)) for name in ("one", "two")]
    await asyncio.gather(*(other.store(f"{other.namespace} {n}") for n in range(6) for other in others))
    rows = await watcher.fetch("SELECT namespace, content FROM memory.memories ORDER BY seq")
    assert [row["content"] for row in rows] == [f"{name} {n}" for n in range(6) for name in ("one", "two")]
    assert all(row["content"].startswith(row["namespace"]) for row in rows)


async def test_each_call_keeps_its_own_deadline_and_what_is_held_up_holds_up_nobody(
    memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    await watcher.execute(_HOLD_UP)
    await memory.store("first")
    async with watcher.transaction():
        await watcher.execute("SELECT pg_catalog.pg_advisory_xact_lock(4711)")
        patient = [asyncio.create_task(memory.store(f"slow {number}")) for number in range(3)]
        hasty = [
            asyncio.create_task(memory.within(seconds).store(f"slow, within {seconds}"))
            for seconds in (0.05, 0.4)
        ]
        coalescer = memory._context.coalescer
        assert coalescer is not None
        async with asyncio.timeout(20):
            under_way = iter(lambda: not coalescer._queue and coalescer._ahead is not None, True)
            for _ in under_way:
                await asyncio.sleep(0.01)
            await asyncio.gather(*(memory.store(f"quick {number}") for number in range(3)))
        outcomes = await asyncio.gather(*hasty, return_exceptions=True)
        assert all(isinstance(outcome, DatabaseTimeoutError) for outcome in outcomes)
        assert not any(task.done() for task in patient)
    await asyncio.gather(*patient)
    contents = await contents_of(watcher)
    assert sorted(content for content in contents if "within" not in content) == sorted(
        ["first", *(f"{kind} {number}" for kind in ("quick", "slow") for number in range(3))]
    )
    assert len(set(contents)) == len(contents)


async def test_the_queue_is_bounded(
    memory: PostgresMemory,
    watcher: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
    written: list[list[str]],
) -> None:
    monkeypatch.setattr(room, "MOST_CALLS", 5)
    monkeypatch.setattr(room, "MOST_CHARACTERS", 60)
    await memory.open()
    tasks = [asyncio.create_task(memory.store(f"tea {number:02} {'x' * number}")) for number in range(30)]
    await asyncio.sleep(0)
    for number in (3, 12, 25):  # one that waits to be written, two before the door
        tasks[number].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [number for number, task in enumerate(tasks) if task.cancelled()] == [3, 12, 25]
    numbers = [int(content.split()[1]) for content in await contents_of(watcher)]
    assert [number for number in numbers if number not in (3, 12, 25)] == [
        number for number in range(30) if number not in (3, 12, 25)
    ]
    assert max(map(len, written)) <= 5
    assert max(sum(map(len, contents)) for contents in written if len(contents) > 1) <= 60
    assert memory._context.coalescer is not None
    assert not memory._context.coalescer._room


async def test_closing_writes_what_came_before(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    memory = PostgresMemory(database.dsn)
    await memory.open()
    calls = [asyncio.create_task(memory.store(f"tea {number}")) for number in range(40)]
    await asyncio.sleep(0)
    await memory.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    contents = await contents_of(watcher)
    told = [f"tea {number}" for number, outcome in enumerate(outcomes) if outcome is None]
    assert contents == told
    assert all(isinstance(outcome, ClosedError) for outcome in outcomes if outcome is not None)
    assert len(told) >= 39
    with pytest.raises(ClosedError):
        await memory.store("too late")
