"""Several embedded fields of a memory: each way of writing embeds what is there, and takes away what is gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from postgres_memory import MemoryPermissions, MemoryRecord, PostgresMemory
from postgres_memory.errors import InvalidEmbeddingError, SpaceError
from postgres_memory.postgres import Verbs
from tests.conftest import Database
from tests.embedders import WordEmbedder, word_vector

from .field_rows import FIELDS, expected, field_rows, there

METADATA: dict[str, Any] = {
    "summary": "the sum",
    "facts": ["one fact", "another fact", 3],
    "notes": [{"text": "a note"}, "none"],
    "other": "not embedded",
}


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def memory(database: Database, embedder: WordEmbedder) -> AsyncIterator[PostgresMemory]:
    """A memory with several fields, and one connection: who holds it while embedding waits for ever."""
    async with PostgresMemory(
        database.dsn, embedder=embedder, embedded_fields=FIELDS, pool_max_size=1, access_tracking="off"
    ) as opened:
        yield opened


@pytest.fixture
async def usual(database: Database) -> AsyncIterator[PostgresMemory]:
    """A memory in the same space that embeds contents alone."""
    async with PostgresMemory(database.dsn, embedder=WordEmbedder(), access_tracking="off") as opened:
        yield opened


async def records(memory: Verbs) -> list[MemoryRecord]:
    return list(await memory.find(limit=1000, include_inactive=True))


async def complete(memory: Verbs, database: Database) -> None:
    """Assert that each field of each memory has its vector, and that nothing else has one."""
    namespace = memory.namespace
    assert there(await field_rows(database, namespace=namespace)) == expected(await records(memory))


def fact(number: int) -> dict[str, Any]:
    return {"facts": [f"fact {number}", "shared"], "summary": f"summary {number}"}


async def write_each_way(memory: Verbs) -> None:
    await memory.store("stored", METADATA)
    await memory.store("stored without")
    await memory.add("added", id="one", metadata=METADATA)
    await memory.add("under a key", idempotency_key="k", metadata=fact(1))
    await memory.add(MemoryRecord(content="whole", id="two", metadata=fact(2)))
    await memory.update("two", content="whole again", metadata={"summary": "new"}, metadata_mode="merge")
    await memory.update("two", metadata={"facts": ["replaced"]}, metadata_mode="replace")
    await memory.add("three", id="three", metadata=METADATA)
    await memory.add("three over", id="three", metadata=fact(3), on_conflict="update")
    await memory.add("new by an update", id="four", metadata=fact(4), on_conflict="update")
    await memory.supersede("one", "in its place", metadata=fact(5))
    await memory.add_many(
        ["simple", {"content": "with", "metadata": fact(6)}, {"content": "x", "id": "m", "metadata": fact(7)}]
    )
    await memory.add_many(
        [
            MemoryRecord(content="x", id="m", metadata={"facts": ["shared", "shared"]}),
            MemoryRecord(content="y", id="four", metadata=METADATA),
            MemoryRecord(content="z", id="new", metadata=fact(8)),
        ],
        on_conflict="update",
    )


async def test_each_way_of_writing_embeds_each_field(memory: PostgresMemory, database: Database) -> None:
    await write_each_way(memory)
    found = await records(memory)
    assert len(found) == 12
    rows = expected(found)
    assert sum(map(len, rows.values())) > 30
    assert rows["three"].keys() == {"", "metadata.summary", "metadata.facts[0]", "metadata.facts[1]"}
    await complete(memory, database)
    (space,) = await memory.spaces()
    assert (space.embedded, space.pending) == (12, 0)


async def test_a_principal_does_so_too(database: Database) -> None:
    async with PostgresMemory(
        database.direct_dsn, embedder=WordEmbedder(), embedded_fields=FIELDS, access_tracking="off"
    ) as memory:
        alice = memory.as_principal("alice")
        stored = await alice.add("added", metadata=METADATA)
        await alice.store("stored", METADATA)
        await alice.add_many([{"content": "many", "metadata": fact(1)}, "bare"])
        await alice.update(stored.id, metadata={"facts": ["only"], "summary": 5}, metadata_mode="merge")
        await alice.supersede(stored.id, "in its place", metadata=fact(2))
        await complete(memory, database)
        (hit,) = await alice.recall("summary 2", limit=1, explain=True)
        assert (hit.record.content, hit.field) == ("in its place", "metadata.summary")
        mine = await memory.add(
            "mine", metadata=METADATA, permissions=MemoryPermissions(owner="bob", writers=("alice",))
        )
        await alice.update(mine.id, metadata={"facts": ["hers"]}, metadata_mode="merge")
        await complete(memory, database)


async def test_only_what_changes_is_embedded(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await memory.add("content", id="one", metadata=METADATA)

    async def asked(**changes: Any) -> list[str]:
        before = len(embedder.asked)
        await memory.update("one", **changes)
        await complete(memory, database)
        return sorted(text for texts in embedder.asked[before:] for text in texts)

    merge, replace = {"metadata_mode": "merge"}, {"metadata_mode": "replace"}
    assert await asked(importance=0.1, tags=["t"]) == []
    assert await asked(metadata={"other": "changed"}, **merge) == []
    assert await asked(metadata={"summary": "new sum"}, **merge) == ["new sum"]
    assert await asked(metadata={"facts": ["one fact", "changed"]}, **merge) == ["changed"]
    assert await asked(content="other content") == ["other content"]
    assert await asked(metadata={"facts": ["one fact"]}, **merge) == []
    assert await asked(metadata={"facts": ["one fact"], "notes": []}, **replace) == []
    assert await asked(metadata={}, content="both", **replace) == ["both"]
    assert there(await field_rows(database)) == {"one": {"": word_vector("both")}}
    assert await asked(metadata={"facts": "no array", "summary": ["no string"]}, **replace) == []


async def test_no_connection_is_held_while_the_embedder_runs(database: Database) -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        await opened[0].count()  # needs the one connection there is
        return [word_vector(text) for text in texts]

    opened: list[PostgresMemory] = []
    async with PostgresMemory(
        database.dsn, embedder=embed, space="words", embedded_fields=FIELDS, pool_max_size=1
    ) as memory:
        opened.append(memory)
        async with asyncio.timeout(60):
            await write_each_way(memory)
            async with memory.transaction() as inside:
                await inside.store("waits", METADATA)
            assert (await memory.embed_pending()).embedded == 1
        await complete(memory, database)


async def test_what_waits_is_embedded_later_and_counted_until_then(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await memory.store("complete", METADATA)
    embedder.fails = lambda _: True
    await write_each_way(memory)
    await memory.update("two", metadata={"facts": ["waits"]}, metadata_mode="merge")
    (space,) = await memory.spaces()
    assert (space.embedded, space.pending) == (1, 12)
    embedder.fails = lambda _: False
    told: list[tuple[int, int]] = []
    result = await memory.embed_pending(batch_size=5, progress=lambda *counts: told.append(counts))
    assert (result.embedded, result.changed, result.failures, result.pending) == (12, 0, 0, 0)
    assert told == [(5, 12), (10, 12), (12, 12)]
    await complete(memory, database)
    asked = len(embedder.asked)
    assert (await memory.embed_pending()).embedded == 0
    assert len(embedder.asked) == asked


async def test_one_field_that_waits_makes_a_memory_pending(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await memory.add("content", id="one", metadata=METADATA)
    embedder.fails = lambda _: True
    await memory.update("one", metadata={"summary": "new"}, metadata_mode="merge")
    assert "metadata.summary" not in there(await field_rows(database))["one"]
    assert (await memory.spaces())[0].pending == 1
    assert "pending: 1 memories in space 'words'" in (await memory.recall("new", explain=True)).plan
    embedder.fails = lambda _: False
    embedder.asked.clear()
    assert (await memory.embed_pending()).embedded == 1
    assert embedder.asked == [["new"]]
    await complete(memory, database)


async def test_a_text_that_is_refused_leaves_the_other_fields(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    async with memory.transaction() as inside:
        await inside.add("content", id="one", metadata=METADATA)
        await inside.add("next", id="two", metadata=fact(1))
    embedder.fails = lambda texts: "another fact" in texts
    result = await memory.embed_pending()
    assert (result.embedded, result.failures, result.pending) == (2, 1, 1)
    assert [failure.id for failure in result.failed] == ["one"]
    rows = expected(await records(memory))
    del rows["one"]["metadata.facts[1]"]
    assert there(await field_rows(database)) == rows


async def test_a_field_is_added_to_a_store_that_is_there(
    usual: PostgresMemory, memory: PostgresMemory, database: Database
) -> None:
    await write_each_way(usual)
    assert {field for rows in (await field_rows(database)).values() for field in rows} == {""}
    assert (await usual.spaces())[0].pending == 0
    waiting = sum(len(rows) > 1 for rows in expected(await records(memory)).values())
    assert (await memory.spaces())[0].pending == waiting == 10
    await usual.reembed("next", embedder=WordEmbedder("next"))
    with pytest.raises(SpaceError, match="no embedding for 10 memories"):
        await memory.switch_space("next", max_pending=0)
    assert (await memory.embed_pending()).embedded == waiting
    await complete(memory, database)


async def test_a_new_space_gets_all_fields(memory: PostgresMemory, database: Database) -> None:
    await write_each_way(memory)
    result = await memory.reembed("next", embedder=WordEmbedder("next"), batch_size=5)
    assert (result.embedded, result.pending) == (12, 0)
    assert there(await field_rows(database, "next")) == expected(await records(memory))
    assert [space.pending for space in await memory.spaces()] == [0, 0]
    await memory.switch_space("next", max_pending=0)
    dropped = sum(map(len, (await field_rows(database)).values()))
    assert await memory.drop_space("words", batch_size=7) == dropped


async def test_whoever_changes_metadata_takes_away_what_is_of_other_texts(
    memory: PostgresMemory, usual: PostgresMemory, database: Database, tmp_path: Path
) -> None:
    """Those who embed contents alone, or nothing at all, in every space."""
    other = {"summary": "the sum", "facts": ["one fact", "changed"]}
    kept = {"", "metadata.summary", "metadata.facts[0]"}
    async with PostgresMemory(database.dsn, access_tracking="off") as bare:
        await bare.add("content", id="given", metadata=other)
        await bare.export(tmp_path / "given.jsonl")
        await bare.delete("given")
        writes: list[Callable[[], Awaitable[object]]] = [
            lambda: usual.update("given", metadata=other, metadata_mode="replace"),
            lambda: bare.update("given", metadata=other | {"notes": 1}, metadata_mode="merge"),
            lambda: usual.add("content", id="given", metadata=other, on_conflict="update"),
            lambda: bare.add_many(
                [MemoryRecord(content="content", id="given", metadata=other)], on_conflict="update"
            ),
            lambda: bare.import_(tmp_path / "given.jsonl", on_conflict="update"),
        ]
        for write in writes:
            await memory.add("content", id="given", metadata=METADATA)
            await memory.reembed("next", embedder=WordEmbedder("next"))
            await complete(memory, database)
            await write()
            for space in ("words", "next"):
                rows = there(await field_rows(database, space))["given"]
                assert rows.keys() | {""} == kept
            assert [space.pending for space in await memory.spaces()] == [1, 1]
            assert (await memory.embed_pending()).embedded == 1
            await complete(memory, database)
            await memory.delete("given")


async def test_an_import_is_pending(memory: PostgresMemory, database: Database, tmp_path: Path) -> None:
    await write_each_way(memory)
    await memory.export(tmp_path / "all.jsonl")
    await memory.clear()
    assert await field_rows(database) == {}
    await memory.import_(tmp_path / "all.jsonl")
    assert (await memory.spaces())[0].pending == 12
    await memory.embed_pending()
    await complete(memory, database)


async def test_what_goes_takes_its_fields_along(memory: PostgresMemory, database: Database) -> None:
    await write_each_way(memory)
    assert await memory.delete("two")
    await complete(memory, database)
    counted = sum(map(len, (await field_rows(database)).values()))
    assert counted > 20
    erased = await memory.erase("default", batch_size=3)
    assert erased.embeddings == counted
    assert await field_rows(database) == {}


@pytest.mark.parametrize("field", ["summary", "facts"])
@pytest.mark.parametrize(("answer", "problem"), [([1.0] * 7, "dimensions"), ([float("nan")] * 8, "NaN")])
async def test_a_vector_that_cannot_be_stored_is_refused_before_anything_is_written(
    database: Database, field: str, answer: list[float], problem: str
) -> None:
    async def embed(texts: Sequence[str]) -> Any:
        return [answer if text == "bad" else word_vector(text) for text in texts]

    bad = {"summary": "bad"} if field == "summary" else {"facts": ["good", "bad"]}
    async with PostgresMemory(database.dsn, embedder=embed, space="words", embedded_fields=FIELDS) as memory:
        before = await memory.add("old", id="old", metadata=METADATA)
        writes: list[Callable[[], Awaitable[object]]] = [
            lambda: memory.store("new", bad),
            lambda: memory.add("new", metadata=bad),
            lambda: memory.add("new", id="old", metadata=bad, on_conflict="update"),
            lambda: memory.update("old", metadata=bad, metadata_mode="merge"),
            lambda: memory.supersede("old", "new", metadata=bad),
            lambda: memory.add_many([{"content": "new", "metadata": bad}]),
        ]
        for write in writes:
            with pytest.raises(InvalidEmbeddingError, match=problem):
                await write()
            assert await memory.get("old") == before
            assert await memory.count() == 1
        await complete(memory, database)


async def test_other_fields_than_the_content_alone(database: Database) -> None:
    async with PostgresMemory(
        database.dsn, embedder=WordEmbedder(), embedded_fields=["metadata.summary"], access_tracking="off"
    ) as memory:
        await memory.store("no field of it is there")
        await memory.add("content", id="one", metadata=METADATA)
        await memory.add_many([{"content": "many", "id": "two", "metadata": {"summary": "of many"}}, "none"])
        await memory.update("one", content="other", metadata={"summary": "new"}, metadata_mode="merge")
        rows = there(await field_rows(database))
        assert rows["one"] == {"metadata.summary": word_vector("new")}
        assert rows["two"] == {"metadata.summary": word_vector("of many")}
        (space,) = await memory.spaces()
        assert (space.embedded, space.pending) == (4, 0)
        assert (await memory.embed_pending()).embedded == 0


async def test_an_update_that_waited_leaves_no_vector_that_came_meanwhile(
    memory: PostgresMemory, database: Database
) -> None:
    """Its statement began before the rows were there: those of what it writes, and those of what it takes away."""
    await memory.add("content", id="one", metadata=METADATA)
    async with PostgresMemory(database.dsn, embedder=WordEmbedder(), embedded_fields=FIELDS) as other:
        connection = await asyncpg.connect(database.direct_dsn)
        try:
            await connection.execute("DELETE FROM memory.memory_embeddings")
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("SELECT FROM memory.memories FOR SHARE")
            changed = {"facts": ["one fact"], "summary": "new sum", "notes": None}
            writing = asyncio.ensure_future(memory.update("one", metadata=changed, metadata_mode="merge"))
            await asyncio.sleep(0.5)
            assert not writing.done()
            for field, vector in expected([MemoryRecord(id="one", content="content", metadata=METADATA)])[
                "one"
            ].items():
                await connection.execute(
                    "INSERT INTO memory.memory_embeddings (namespace, space, field, seq, embedding, digest) "
                    "SELECT namespace, 'words', $1, seq, $2::real[]::public.vector, "
                    "CASE WHEN $1 <> '' THEN sha256(convert_to($3, 'UTF8')) END FROM memory.memories",
                    field,
                    vector,
                    check_texts()[field],
                )
            await transaction.commit()
            await writing
        finally:
            await connection.close()
        await complete(other, database)


def check_texts() -> dict[str, str]:
    return {
        "": "content",
        "metadata.summary": "the sum",
        "metadata.facts[0]": "one fact",
        "metadata.facts[1]": "another fact",
        "metadata.notes[0].text": "a note",
    }


async def test_a_vector_that_older_code_left_is_found_and_taken_away(
    memory: PostgresMemory, database: Database
) -> None:
    """It changes metadata and knows nothing of fields."""
    await memory.add("content", id="one", metadata=METADATA)
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute(
            'UPDATE memory.memories SET metadata = \'{"summary": "other", "facts": ["one fact"]}\''
        )
    finally:
        await connection.close()
    assert (await memory.spaces())[0].pending == 1
    assert (await memory.embed_pending()).embedded == 1
    await complete(memory, database)


async def test_writers_of_one_memory_leave_no_wrong_vector(database: Database) -> None:
    """With these fields, with others, with none, and one that embeds what waits, all at once."""
    made = [
        PostgresMemory(database.dsn, embedder=WordEmbedder(), embedded_fields=FIELDS, pool_max_size=3),
        PostgresMemory(database.dsn, embedder=WordEmbedder(), embedded_fields=FIELDS[:2], pool_max_size=2),
        PostgresMemory(database.dsn, pool_max_size=2),
    ]
    await made[0].add("start", id="one", metadata=METADATA)
    chance = random.Random(5)
    done = False

    async def write(memory: PostgresMemory, name: str) -> None:
        for number in range(20):
            facts = [f"{name} {number} {place}" for place in range(chance.randrange(4))]
            metadata: dict[str, Any] = {"facts": facts, "summary": f"{name} {number % 3}"}
            if chance.random() < 0.7:
                await memory.update("one", metadata=metadata, metadata_mode="merge")
            else:
                await memory.add(f"{name} {number}", id="one", metadata=metadata, on_conflict="update")

    async def embed() -> None:
        while not done:
            await made[0].embed_pending()
            await asyncio.sleep(0.01)

    try:
        embedding = asyncio.ensure_future(embed())
        await asyncio.gather(*(write(memory, f"writer{n}") for n, memory in enumerate(made * 2)))
        done = True
        await embedding
        await made[0].embed_pending()
        await complete(made[0], database)
    finally:
        done = True
        for memory in made:
            await memory.close()
