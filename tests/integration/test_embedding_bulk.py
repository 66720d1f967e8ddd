"""`add_many` and `import_` with an embedder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from postgres_memory import MemoryRecord, MemoryRelation, MemoryRelationType, PostgresMemory
from postgres_memory.errors import InvalidEmbeddingError
from tests.conftest import Database
from tests.embedders import WordEmbedder, embeddings, spaces, word_vector


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def memory(database: Database, embedder: WordEmbedder) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn, embedder=embedder) as opened:
        yield opened


def expected(contents: Sequence[str]) -> dict[str, list[float]]:
    return {content: word_vector(content) for content in contents}


async def test_every_kind_of_item_gets_its_vector(memory: PostgresMemory, database: Database) -> None:
    await memory.add("there", id="there")
    items: list[Any] = [
        "plain",
        {"content": "simple", "metadata": {"a": 1}},
        {"content": "whole", "tags": ["t"]},
        MemoryRecord(content="record", id="one"),
        {
            "content": "related",
            "relations": [MemoryRelation("there", MemoryRelationType.EXTENDS)],
        },
    ]
    result = await memory.add_many(items, batch_size=3)
    assert (result.stored, result.failures) == (5, 0)
    contents = ["there", "plain", "simple", "whole", "record", "related"]
    assert await embeddings(database) == expected(contents)


async def test_vectors_go_with_their_items_whatever_becomes_of_the_others(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.add("held", id="holder", dedupe="content")
    await memory.add("old", id="taken")
    items: list[Any] = [
        {"content": "b", "id": "b"},
        {"content": "held"},
        {"content": "new", "id": "taken"},
        "a",
        {"content": "again", "id": "b"},
    ]
    result = await memory.add_many(items, on_conflict="update", dedupe="content")
    assert (result.stored, result.ignored) == (3, 2)
    assert await embeddings(database) == expected(["held", "new", "again", "a"])


async def test_many_batches_are_embedded_while_others_are_written(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    contents = [f"content {number}" for number in range(500)]
    result = await memory.add_many(contents, batch_size=50)
    assert result.stored == 500
    assert await embeddings(database) == expected(contents)
    assert len(embedder.asked) == 10


async def test_no_connection_is_held_while_a_batch_is_embedded(database: Database) -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        await opened[0].count()
        return [word_vector(text) for text in texts]

    opened: list[PostgresMemory] = []
    async with PostgresMemory(database.dsn, embedder=embed, space="words", pool_max_size=1) as memory:
        opened.append(memory)
        async with asyncio.timeout(30):
            await memory.add_many(["one", "two", "three"], batch_size=1)
    assert await embeddings(database) == expected(["one", "two", "three"])


async def test_a_batch_whose_embedding_fails_is_stored_and_waits(
    memory: PostgresMemory,
    database: Database,
    embedder: WordEmbedder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await memory.add("old", id="one")
    embedder.fails = lambda texts: "b" in texts
    with caplog.at_level(logging.WARNING, logger="postgres_memory"):
        items: list[Any] = ["a", {"content": "new", "id": "one"}, "b", "c", "d"]
        result = await memory.add_many(items, batch_size=3, on_conflict="update")
    assert result.stored == 5
    assert caplog.text.count("3 memories wait for embed_pending()") == 1
    assert await embeddings(database) == expected(["c", "d"]) | {"a": None, "new": None, "b": None}
    embedder.fails = lambda _: False
    assert (await memory.embed_pending()).embedded == 3


async def test_vectors_that_cannot_be_stored_are_refused_with_their_batch(database: Database) -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return [word_vector(text, 8 if text != "bad" else 7) for text in texts]

    async with PostgresMemory(database.dsn, embedder=embed, space="words") as memory:
        with pytest.raises(InvalidEmbeddingError, match="different dimensions"):
            await memory.add_many(["a", "b", "c", "bad", "d", "e"], batch_size=2)
        assert await embeddings(database) == expected(["a", "b"])


async def test_a_batch_that_is_refused_is_not_embedded(
    memory: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    result = await memory.add_many(["a", {"content": 7}, "b"], batch_size=2)
    assert (result.stored, result.not_stored) == (1, 2)
    assert embedder.asked == [["b"]]


async def test_in_a_transaction_a_batch_waits(memory: PostgresMemory, database: Database) -> None:
    async with memory.transaction() as inside:
        await inside.add_many(["a", "b"])
    assert await embeddings(database) == {"a": None, "b": None}


async def test_plain_lines_are_embedded_and_exports_wait(
    memory: PostgresMemory, database: Database, tmp_path: Path
) -> None:
    plain, export = tmp_path / "plain.jsonl", tmp_path / "export.jsonl"
    plain.write_text('{"content": "one"}\n{"content": "two"}\n')
    await memory.import_(plain)
    assert await embeddings(database) == expected(["one", "two"])
    await memory.export(export)
    async with PostgresMemory(database.dsn, namespace="copy", embedder=WordEmbedder()) as copy:
        await copy.import_(export)
        assert await embeddings(database, namespace="copy") == {"one": None, "two": None}
        await copy.embed_pending()
        assert await embeddings(database, namespace="copy") == expected(["one", "two"])


async def test_an_import_over_other_contents_takes_their_vectors_away(
    memory: PostgresMemory, database: Database, tmp_path: Path
) -> None:
    export = tmp_path / "export.jsonl"
    await memory.add("before", id="one")
    await memory.export(export)
    await memory.update("one", content="after")
    await memory.import_(export, on_conflict="update")
    assert await embeddings(database) == {"before": None}
    await memory.embed_pending()
    assert await embeddings(database) == expected(["before"])
    assert await spaces(database) == {"words": "active"}
