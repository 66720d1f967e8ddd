"""Writing with an embedder: the vector is that of the content, or there is none; its failures lose no write."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from postgres_memory import MemoryRecord, PostgresMemory
from postgres_memory.errors import (
    ConflictError,
    EmbedderError,
    InvalidEmbeddingError,
    InvalidValueError,
    NotFoundError,
    PostgresMemoryError,
)
from tests.conftest import Database
from tests.embedders import WordEmbedder, embeddings, spaces, word_vector


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def memory(database: Database, embedder: WordEmbedder) -> AsyncIterator[PostgresMemory]:
    """A memory with an embedder, and one connection: who holds it while embedding waits for ever."""
    async with PostgresMemory(database.dsn, embedder=embedder, pool_max_size=1) as opened:
        yield opened


async def write_each_way(memory: PostgresMemory) -> None:
    """Leave six memories, each written in another way."""
    await memory.store("stored")
    await memory.add("added", id="one")
    await memory.add("under a key", idempotency_key="k")
    await memory.add(MemoryRecord(content="to be updated", id="two"))
    await memory.update("two", content="updated")
    await memory.add("to be added over", id="three")
    await memory.add("added over", id="three", on_conflict="update")
    await memory.add("new by an update", id="four", on_conflict="update")
    await memory.supersede("one", "in its place")


async def test_each_way_of_writing_writes_the_vector(memory: PostgresMemory, database: Database) -> None:
    await write_each_way(memory)
    found = await embeddings(database)
    assert len(found) == 7
    assert found == {content: word_vector(content) for content in found}
    assert await spaces(database) == {"words": "active"}


async def test_other_changes_leave_the_vector_alone(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await memory.add("as it was", id="one")
    asked = len(embedder.asked)
    await memory.update("one", importance=0.9, tags=["t"])
    await memory.archive("one")
    await memory.restore("one")
    assert len(embedder.asked) == asked
    assert await embeddings(database) == {"as it was": word_vector("as it was")}
    assert await memory.delete("one")
    assert await embeddings(database) == {}


async def test_no_connection_is_held_while_the_embedder_runs(database: Database) -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        await opened[0].count()  # needs the one connection there is
        return [word_vector(text) for text in texts]

    opened: list[PostgresMemory] = []
    async with PostgresMemory(database.dsn, embedder=embed, space="words", pool_max_size=1) as memory:
        opened.append(memory)
        async with asyncio.timeout(30):
            await write_each_way(memory)
        assert None not in (await embeddings(database)).values()


async def test_an_embedder_that_fails_loses_nothing(
    memory: PostgresMemory,
    database: Database,
    embedder: WordEmbedder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder.fails = lambda _: True
    with caplog.at_level(logging.WARNING, logger="postgres_memory"):
        await write_each_way(memory)
    assert "embedding space 'words': RuntimeError" in caplog.text
    assert "the model is away" not in caplog.text
    found = await embeddings(database)
    assert len(found) == 7
    assert set(found.values()) == {None}
    assert [entry.content for entry in await memory.search("stored", 1)] == ["stored"]


async def test_a_new_content_that_waits_takes_the_vector_of_the_old_one_away(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await memory.add("first", id="one")
    await memory.add("first too", id="two")
    embedder.fails = lambda _: True
    await memory.update("one", content="second")
    await memory.add("second too", id="two", on_conflict="update")
    assert await embeddings(database) == {"second": None, "second too": None}


async def test_it_does_so_for_spaces_that_the_writer_knows_nothing_of(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.add("first", id="one")
    async with PostgresMemory(database.dsn) as without:
        await without.update("one", content="second")
        assert await embeddings(database) == {"second": None}
        await memory.update("one", content="third")
        assert await embeddings(database) == {"third": word_vector("third")}
    async with PostgresMemory(database.dsn, embedder=WordEmbedder("other", 5)) as other:
        await other.update("one", content="fourth")
    assert await embeddings(database) == {"fourth": None}
    assert await embeddings(database, "other") == {"fourth": word_vector("fourth", 5)}


WRITES: list[Callable[[PostgresMemory], Awaitable[object]]] = [
    lambda memory: memory.store("new"),
    lambda memory: memory.add("new"),
    lambda memory: memory.add("new", id="old", on_conflict="update"),
    lambda memory: memory.add("new", idempotency_key="key"),
    lambda memory: memory.update("old", content="new"),
    lambda memory: memory.supersede("old", "new"),
]


@pytest.mark.parametrize("number", range(len(WRITES)))
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([[1.0] * 7], "7 dimensions where 8 are expected"),
        ([[float("nan")] * 8], "NaN"),
        ([[1.0] * 8] * 2, "2 vectors for 1 texts"),
    ],
)
async def test_a_vector_that_cannot_be_stored_is_refused_before_anything_is_written(
    database: Database, number: int, answer: Any, problem: str
) -> None:
    bad = False

    async def embed(texts: Sequence[str]) -> Any:
        return answer if bad else [word_vector(text) for text in texts]

    async with PostgresMemory(database.dsn, embedder=embed, space="words") as memory:
        await memory.add("old", id="old")
        before = await memory.get("old")
        bad = True
        with pytest.raises(InvalidEmbeddingError, match=problem):
            await WRITES[number](memory)
        assert await memory.get("old") == before
        assert await memory.count() == 1


async def test_a_space_keeps_its_dimensions_and_its_distance(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.store("one")
    longer = PostgresMemory(database.dsn, embedder=WordEmbedder(dimensions=9))
    for made in (longer, PostgresMemory(database.dsn, embedder=WordEmbedder(), distance="l2")):
        async with made as other:
            with pytest.raises(
                InvalidEmbeddingError, match="it holds vectors of 8 dimensions compared by cosine"
            ):
                await other.store("two")
    assert await memory.count() == 1


async def test_a_second_embedder_fills_a_space_beside_the_active_one(
    memory: PostgresMemory, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.store("one")
    async with PostgresMemory(database.dsn, embedder=WordEmbedder("other")) as other:
        await other.store("two")
        await other.store("three")
    assert await spaces(database) == {"words": "active", "other": "filling"}
    assert caplog.text.count("is not the active one yet") == 1


async def test_objects_that_write_first_at_once_agree_on_one_active_space(database: Database) -> None:
    names = [f"space {number % 3}" for number in range(9)]
    memories = [PostgresMemory(database.dsn, embedder=WordEmbedder(name)) for name in names]
    try:
        await asyncio.gather(*(memory.store(f"content {n}") for n, memory in enumerate(memories)))
    finally:
        for memory in memories:
            await memory.close()
    statuses = await spaces(database)
    assert sorted(statuses.values()) == ["active", "filling", "filling"]
    found = [await embeddings(database, name) for name in sorted(statuses)]
    assert [len([v for v in one.values() if v]) for one in found] == [3, 3, 3]


async def write_and_fail(memory: PostgresMemory) -> None:
    async with memory.transaction() as inside:
        await inside.store("rolled back, and its space with it")
        raise ZeroDivisionError


async def test_in_a_transaction_it_waits_unless_told_otherwise(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    async with memory.transaction() as inside:
        await inside.add("one", id="one")
        await inside.update("one", content="two")
    assert embedder.asked == []
    assert await embeddings(database) == {"two": None}
    async with PostgresMemory(database.dsn, embedder=embedder, embed_in_transactions=True) as told:
        with pytest.raises(ZeroDivisionError):
            await write_and_fail(told)
        assert await spaces(database) == {}
        async with told.transaction() as inside:
            await inside.store("three")
    assert await embeddings(database) == {"two": None, "three": word_vector("three")}


async def test_conflicts_are_told_as_without_an_embedder(memory: PostgresMemory, database: Database) -> None:
    await memory.add("one", id="one", dedupe="content")
    same = await memory.add("one", dedupe="content")
    assert same.id == "one"
    with pytest.raises(ConflictError):
        await memory.add("two", id="one")
    assert (await memory.add("three", id="one", on_conflict="ignore")).content == "one"
    with pytest.raises(NotFoundError):
        await memory.update("none", content="four")
    assert await embeddings(database) == {"one": word_vector("one")}


OVER, UPDATED = WRITES[2], WRITES[4]


async def test_an_update_that_waited_leaves_no_vector_that_came_meanwhile(
    memory: PostgresMemory, database: Database
) -> None:
    """What the update's statement cannot see: it began before the row was there."""
    await memory.add("old", id="old")
    other = await asyncpg.connect(database.direct_dsn)
    async with PostgresMemory(database.dsn) as without:
        try:
            await other.execute("DELETE FROM memory.memory_embeddings")
            for write in (OVER, UPDATED):
                transaction = other.transaction()
                await transaction.start()
                await other.execute("SELECT FROM memory.memories FOR SHARE")
                writing = asyncio.ensure_future(write(without))
                await asyncio.sleep(0.5)
                assert not writing.done()
                await other.execute(
                    "INSERT INTO memory.memory_embeddings (namespace, space, seq, embedding) "
                    "SELECT namespace, 'words', seq, $1::real[]::public.vector FROM memory.memories "
                    "ON CONFLICT (namespace, seq, space, field) DO UPDATE SET embedding = excluded.embedding",
                    word_vector("old"),
                )
                await transaction.commit()
                await writing
                assert await embeddings(database) == {"new": None}
        finally:
            await other.close()


async def test_writers_of_one_memory_with_and_without_embedders_leave_no_wrong_vector(
    database: Database,
) -> None:
    made = [
        PostgresMemory(database.dsn, embedder=WordEmbedder("words")),
        PostgresMemory(database.dsn, embedder=WordEmbedder("other", 5)),
        PostgresMemory(database.dsn),
    ]
    await made[0].add("start", id="one")
    chance = random.Random(4)

    async def write(memory: PostgresMemory, name: str) -> None:
        for number in range(25):
            content = f"{name} {number}"
            if chance.random() < 0.5:
                await memory.update("one", content=content)
            else:
                await memory.add(content, id="one", on_conflict="update")

    try:
        await asyncio.gather(*(write(memory, f"writer {n}") for n, memory in enumerate(made * 2)))
        content = (await made[0].get("one")).content
        assert (await embeddings(database))[content] in (None, word_vector(content))
        assert (await embeddings(database, "other"))[content] in (None, word_vector(content, 5))
    finally:
        for memory in made:
            await memory.close()


async def test_a_space_that_is_dropped_under_a_writer_loses_no_write(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.store("one")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute("DELETE FROM memory.memory_embeddings; DELETE FROM memory.embedding_spaces")
    finally:
        await connection.close()
    await memory.store("two")
    assert await embeddings(database) == {"one": None, "two": None}


def test_arguments_that_need_an_embedder() -> None:
    with pytest.raises(InvalidValueError, match=r"^embedder: must be given"):
        PostgresMemory("postgresql://h/d", space="s")
    assert issubclass(EmbedderError, PostgresMemoryError)
