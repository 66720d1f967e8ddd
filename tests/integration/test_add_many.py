"""`add_many`: batches, conflicts, relations inside a batch, failures, cancellation."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory.bulk_records import BulkFailure, BulkResult
from postgres_memory.embedding.hashing import hash_embedding
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from postgres_memory.records import MemoryRecord, MemoryRelation, MemoryRelationType
from tests.conftest import Database
from tests.factories import records
from tests.integration.test_records import without_server_set


async def contents(memory: PostgresMemory) -> list[str]:
    """Every content in insertion order: a query with nothing in common ranks by nothing else."""
    return [entry.content for entry in await memory.search("", 1_000_000)]


async def test_it_takes_texts_dicts_and_records_in_order(memory: PostgresMemory) -> None:
    given_record = MemoryRecord(content="record", tags=("t",), importance=0.9)
    items: list[Any] = [
        "text",
        {"content": "dict", "metadata": {"n": 1e23}},
        given_record,
        {"content": "whole", "id": "w", "tags": ["a", "é"], "expires_at": datetime(2999, 1, 1, tzinfo=UTC)},
        {"content": ""},
    ]
    handled: list[int] = []
    result = await memory.add_many(items, batch_size=2, progress=handled.append)
    assert result == BulkResult(stored=5)
    assert handled == [2, 4, 5]
    assert await contents(memory) == ["text", "dict", "record", "whole", ""]
    assert without_server_set(await memory.get(given_record.id)) == given_record
    whole = await memory.get("w")
    assert (whole.tags, whole.expires_at, whole.version) == (("a", "é"), datetime(2999, 1, 1, tzinfo=UTC), 1)
    assert whole.embedding == tuple(hash_embedding("whole"))
    entry = (await memory.search("dict", 1))[0]
    assert (entry.metadata, type(entry.metadata["n"]), entry.score) == ({"n": 1e23}, float, 1.0)
    assert (await memory.verify()).differences == ()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(records, max_size=8), on_conflict=st.sampled_from(["error", "ignore", "update"]))
async def test_what_is_loaded_equals_what_was_given(
    memory: PostgresMemory, batch: list[MemoryRecord], on_conflict: Any
) -> None:
    result = await memory.add_many(batch, batch_size=3, on_conflict=on_conflict)
    assert result == BulkResult(stored=len(batch))
    found = await memory.get_many([record.id for record in batch])
    assert [without_server_set(record) for record in found if record] == batch
    assert all(record and record.embedding == tuple(hash_embedding(record.content)) for record in found)


async def test_relations_may_lead_anywhere_in_the_batch(memory: PostgresMemory) -> None:
    there = await memory.add("there", id="there")
    batch: list[Any] = [
        MemoryRecord(id="a", content="a", relations=(MemoryRelation("b", MemoryRelationType.FOLLOWS),)),
        MemoryRecord(
            id="b", content="b", relations=(MemoryRelation("a", MemoryRelationType.SUPPORTS, 0.25),)
        ),
        {"content": "c", "id": "c", "derived_from": [there.id, "a"]},
    ]
    for on_conflict in ("error", "ignore"):
        assert (await memory.add_many(batch, on_conflict=cast(Any, on_conflict))).failed == ()
        a, b, c = await memory.get_many(["a", "b", "c"])
        assert a is not None
        assert b is not None
        assert c is not None
        assert [relation.target_id for relation in a.relations] == ["b"]
        assert b.relations[0].confidence == 0.25
        assert [relation.target_id for relation in c.relations] == ["a", "there"]
        await memory.delete("a")
        await memory.delete("b")
        await memory.delete("c")


async def test_a_batch_with_a_bad_item_is_not_stored_and_the_others_are(memory: PostgresMemory) -> None:
    items: list[Any] = ["0", "1", "2", 3, "4", {"content": "5", "metadata": {"x": {1}}}, "6", "7"]
    result = await memory.add_many(items, batch_size=2)
    assert (result.stored, result.not_stored) == (4, 4)
    assert [(failure.index, failure.batch) for failure in result.failed] == [(3, (2, 4)), (5, (4, 6))]
    assert "str" in result.failed[0].reason
    assert 'metadata["x"]' in result.failed[1].reason
    assert await contents(memory) == ["0", "1", "6", "7"]


async def test_ids_that_are_taken_are_failures_with_their_index(memory: PostgresMemory) -> None:
    await memory.add("there", id="a")
    items: list[Any] = [
        "x",
        {"content": "y", "id": "a"},
        {"content": "z", "id": "b"},
        {"content": "z", "id": "b"},
    ]
    result = await memory.add_many(items)
    assert (result.stored, result.not_stored) == (0, 4)
    assert [failure.index for failure in result.failed] == [1, 2, 3]
    assert await contents(memory) == ["there"]


async def test_an_update_leaves_the_status_to_the_lifecycle(memory: PostgresMemory) -> None:
    await memory.add("old", id="a")
    await memory.supersede("a", "new", id="b")
    await memory.add("again", id="a", on_conflict="update")
    assert (await memory.add_many([{"content": "more", "id": "a"}], on_conflict="update")).stored == 1
    assert [(record.id, record.status.value) for record in await memory.history("a")] == [
        ("a", "superseded"),
        ("b", "active"),
    ]
    assert [entry.content for entry in await memory.search("more", 9)] == ["new"]


async def test_a_missing_target_is_a_failure_with_its_index(memory: PostgresMemory) -> None:
    bad = MemoryRecord(content="x", relations=(MemoryRelation("nobody", MemoryRelationType.RELATED),))
    result = await memory.add_many(["ok", bad])
    assert result.failed == (BulkFailure(1, "relations: no memory 'nobody' to relate to", (0, 2)),)
    assert await contents(memory) == []


async def test_ignore_update_and_dedupe(memory: PostgresMemory) -> None:
    await memory.add("old", id="a", metadata={"old": True})
    items: list[Any] = [
        {"content": "new", "id": "a"},
        {"content": "b1", "id": "b"},
        {"content": "b2", "id": "b"},
    ]
    assert await memory.add_many(items, on_conflict="ignore") == BulkResult(stored=1, ignored=2)
    assert await contents(memory) == ["old", "b1"]
    assert await memory.add_many(items, on_conflict="update") == BulkResult(stored=2, ignored=1)
    assert await contents(memory) == ["new", "b2"]
    updated = await memory.get("a")
    assert (updated.version, updated.metadata, updated.embedding) == (2, {}, tuple(hash_embedding("new")))
    assert await memory.add_many(["d", "d", "e"], dedupe="content") == BulkResult(stored=2, ignored=1)
    assert await memory.add_many(["e", "f"], dedupe="content") == BulkResult(stored=1, ignored=1)
    assert (await memory.add("f", dedupe="content")).version == 1
    assert await contents(memory) == ["new", "b2", "d", "e", "f"]


async def test_two_loaders_at_once_with_dedupe_store_each_content_once(database: Database) -> None:
    texts = [f"text {number}" for number in range(300)]
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        results = await asyncio.gather(
            *(memory.add_many(texts, batch_size=50, dedupe="content") for memory in (one, two, one))
        )
        assert sum(result.stored for result in results) == 300
        assert sum(result.ignored for result in results) == 600
        assert sorted(await contents(one)) == sorted(texts)


async def test_sessions_get_their_lifetime(database: Database) -> None:
    async with PostgresMemory(database.dsn, session_ttl=timedelta(hours=2)) as memory:
        for on_conflict in ("error", "ignore"):
            record = MemoryRecord(content="brief", memory_type=cast(Any, "session"))
            await memory.add_many([record], on_conflict=cast(Any, on_conflict))
            stored = await memory.get(record.id)
            assert stored.expires_at is not None
            assert stored.updated_at is not None
            assert abs(stored.expires_at - stored.updated_at - timedelta(hours=2)) < timedelta(seconds=5)


async def test_an_async_iterable_and_a_generator_are_streamed(memory: PostgresMemory) -> None:
    async def stream() -> AsyncIterator[str]:
        for number in range(25):
            await asyncio.sleep(0)
            yield f"async {number}"

    def lazily() -> Iterator[str]:
        yield from (f"sync {number}" for number in range(25))

    assert (await memory.add_many(stream(), batch_size=10)).stored == 25
    assert (await memory.add_many(lazily(), batch_size=10)).stored == 25
    assert await contents(memory) == [f"{kind} {n}" for kind in ("async", "sync") for n in range(25)]


async def test_an_error_of_the_input_passes_and_whole_batches_stay(memory: PostgresMemory) -> None:
    def failing() -> Iterator[str]:
        for number in range(700):
            yield str(number)
        raise OSError("the file ended")

    with pytest.raises(OSError, match="the file ended"):
        await memory.add_many(failing(), batch_size=100)
    stored = await contents(memory)
    assert stored == [str(number) for number in range(len(stored))]
    assert len(stored) % 100 == 0


@pytest.mark.parametrize("count", [100, 150, 199, 200, 250])
async def test_a_failing_input_loses_no_batch_that_was_read_whole(memory: PostgresMemory, count: int) -> None:
    def failing() -> Iterator[str]:
        yield from map(str, range(count))
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await memory.add_many(failing(), batch_size=50)
    # A batch counts as read when the item after it arrived, or could not.
    assert len(await contents(memory)) >= (count - 1) // 50 * 50


async def test_a_cancelled_load_leaves_whole_batches_and_a_usable_memory(memory: PostgresMemory) -> None:
    arrived = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        number = 0
        while True:
            if number == 250:
                arrived.set()
            await asyncio.sleep(0)
            yield str(number)
            number += 1

    task = asyncio.create_task(memory.add_many(endless(), batch_size=50))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stored = await contents(memory)
    assert len(stored) % 50 == 0
    assert stored == [str(number) for number in range(len(stored))]
    await memory.store("after")
    assert (await contents(memory))[-1] == "after"


async def test_it_joins_the_callers_transaction(memory: PostgresMemory, database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        items: list[Any] = ["a", "b", 3, "d", "e"]
        result = await memory.add_many(items, batch_size=2, connection=connection)
        assert (result.stored, result.not_stored) == (3, 2)
        assert await connection.fetchval("SELECT count(*) FROM memory.memories") == 3
        await transaction.rollback()
    finally:
        await connection.close()
    assert await contents(memory) == []
    async with memory.transaction() as inside:
        assert (await inside.add_many(["x", "y"], batch_size=1)).stored == 2
    assert await contents(memory) == ["x", "y"]


async def test_bad_arguments(memory: PostgresMemory) -> None:
    for items in ("text", b"bytes", {"content": "one"}, 5):
        with pytest.raises(InvalidTypeError, match="items"):
            await memory.add_many(cast(Any, items))
    with pytest.raises(InvalidValueError, match="batch_size"):
        await memory.add_many([], batch_size=0)
    with pytest.raises(InvalidValueError, match="on_conflict"):
        await memory.add_many([], on_conflict=cast(Any, "skip"))
    assert await memory.add_many([]) == BulkResult()


async def test_long_contents_make_smaller_batches(memory: PostgresMemory) -> None:
    handled: list[int] = []
    long = "x" * 1_000_000
    result = await memory.add_many((long for _ in range(20)), progress=handled.append)
    assert result.stored == 20
    assert len(handled) >= 3


@pytest.mark.parametrize(
    "item",
    [
        {"content": "x", "metadata": {"pages": ["x" * 900] * 1_000}},
        {"content": "x", "tags": ["x" * 200 + str(n) for n in range(4_000)]},
        MappingProxyType({"content": "x", "metadata": {"page": "x" * 1_000_000}}),
        MemoryRecord(content="x", metadata={"page": "x" * 1_000_000}),
    ],
    ids=["metadata", "tags", "mapping", "record"],
)
async def test_whatever_is_long_makes_smaller_batches(memory: PostgresMemory, item: Any) -> None:
    handled: list[int] = []
    copies = (replace(item, id=f"{n}") if isinstance(item, MemoryRecord) else item for n in range(20))
    result = await memory.add_many(copies, progress=handled.append)
    assert result.stored == 20
    assert len(handled) >= 3


async def test_metadata_that_contains_itself_is_a_failure(memory: PostgresMemory) -> None:
    endless: dict[str, Any] = {}
    endless["again"] = [endless, endless]
    result = await memory.add_many(["fine", {"content": "x", "metadata": endless}])
    assert [failure.index for failure in result.failed] == [1]


async def test_failures_beyond_a_thousand_are_counted(memory: PostgresMemory) -> None:
    result = await memory.add_many(cast(Any, (5 for _ in range(1_500))), batch_size=400)
    assert (result.failures, result.not_stored, len(result.failed)) == (1_500, 1_500, 1_000)
    assert [failure.index for failure in result.failed] == list(range(1_000))
    assert result.failed[-1].batch == (800, 1_200)


async def test_progress_may_be_a_coroutine_function(memory: PostgresMemory) -> None:
    handled: list[int] = []

    async def hear(number: int) -> None:
        await asyncio.sleep(0)
        handled.append(number)

    await memory.add_many(["a", "b", "c"], batch_size=2, progress=hear)
    assert handled == [2, 3]


async def test_ids_are_updated_and_contents_that_are_held_are_ignored(memory: PostgresMemory) -> None:
    await memory.add("old", id="a", dedupe="content")
    await memory.add("held — ü", id="h", dedupe="content")
    items: list[Any] = [
        {"content": "new", "id": "a"},
        {"content": "held — ü", "id": "b"},
        "held — ü",
        {"content": "old", "id": "c"},  # which the update of a lets go of
        "new",
        {"content": "last", "id": "d"},
        {"content": "last", "id": "e"},
    ]
    result = await memory.add_many(items, on_conflict="update", dedupe="content")
    assert result == BulkResult(stored=3, ignored=4)
    found = await memory.get_many(["a", "b", "c", "d", "e", "h"])
    assert [record and (record.content, record.version) for record in found] == [
        ("new", 2),
        None,
        ("old", 1),
        ("last", 1),
        None,
        ("held — ü", 1),
    ]
    assert (await memory.verify()).differences == ()
    # What was loaded is held against `add`, and the other way round.
    assert (await memory.add("old", dedupe="content")).id == "c"


@pytest.mark.parametrize("dedupe", [None, "content"])
async def test_an_update_to_a_content_that_is_held_names_the_item(
    memory: PostgresMemory, dedupe: Any
) -> None:
    await memory.add("one", id="a", dedupe="content")
    await memory.add("two", id="b", dedupe="content")
    items: list[Any] = ["fine", {"content": "two", "id": "a"}]
    result = await memory.add_many(items, on_conflict="update", dedupe=dedupe)
    reason = "content: memory 'b' holds this deduped content already"
    assert result.failed == (BulkFailure(1, reason, (0, 2)),)
    assert await contents(memory) == ["one", "two"]
    swapped: list[Any] = [{"content": "two", "id": "a"}, {"content": "one", "id": "b"}]
    assert (await memory.add_many(swapped, on_conflict="update", dedupe=dedupe)).stored == 2
    assert await contents(memory) == ["two", "one"]
    assert (await memory.add("one", dedupe="content")).id == "b"


async def test_a_relation_to_what_dedupe_left_out_leads_to_the_holder(memory: PostgresMemory) -> None:
    await memory.add("there", id="there", dedupe="content")
    items: list[Any] = [
        {"content": "first", "id": "first"},
        {"content": "first", "id": "second"},
        {"content": "there", "id": "third"},
        {"content": "c", "id": "c", "derived_from": ["second", "third"]},
    ]
    assert await memory.add_many(items, dedupe="content") == BulkResult(stored=2, ignored=2)
    assert [relation.target_id for relation in (await memory.get("c")).relations] == ["first", "there"]


async def test_a_relation_to_ones_own_content_is_a_failure(memory: PostgresMemory) -> None:
    items: list[Any] = [
        {"content": "same", "id": "a", "derived_from": ["b"]},
        {"content": "same", "id": "b"},
    ]
    result = await memory.add_many(items, dedupe="content")
    reason = "relations: 'b' has the same deduped content as this memory"
    assert result.failed == (BulkFailure(0, reason, (0, 2)),)


@pytest.mark.parametrize("on_conflict", ["error", "ignore", "update"])
@pytest.mark.parametrize("dedupe", [None, "content"])
async def test_the_order_is_that_of_the_input_whatever_the_ids(
    memory: PostgresMemory, on_conflict: Any, dedupe: Any
) -> None:
    ids = [f"{number * 7919 % 100:02}" for number in range(100)]
    items: list[Any] = [{"content": f"text {id_}", "id": id_} for id_ in ids]
    assert (await memory.add_many(items, on_conflict=on_conflict, dedupe=dedupe)).stored == 100
    assert await contents(memory) == [f"text {id_}" for id_ in ids]


async def test_the_space_does_not_grow_with_the_input(memory: PostgresMemory) -> None:
    async def peak(count: int) -> int:
        tracemalloc.start()
        items = ({"content": f"memory number {n}", "metadata": {"n": n}} for n in range(count))
        assert (await memory.add_many(items, batch_size=500)).stored == count
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    await peak(2_000)
    small = await peak(5_000)
    assert await peak(30_000) < small * 1.5  # of six times as much


async def test_the_space_does_not_grow_with_the_failures(memory: PostgresMemory) -> None:
    async def peak(count: int) -> int:
        tracemalloc.start()
        result = await memory.add_many(cast(Any, (n for n in range(count))), batch_size=500)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert result.failures == count
        return peak

    small = await peak(5_000)
    assert await peak(30_000) < small * 1.5  # of six times as much
