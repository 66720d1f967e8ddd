"""Filling spaces, switching between them and dropping them, while others write, read and fail."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest

from postgres_memory import EmbedResult, PostgresMemory
from postgres_memory.errors import (
    EmbedderError,
    InvalidEmbeddingError,
    InvalidInputError,
    InvalidValueError,
    SpaceError,
    UsageError,
)
from tests.conftest import Database
from tests.embedders import WordEmbedder, embeddings, spaces, word_vector


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def memory(database: Database, embedder: WordEmbedder) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn, embedder=embedder, pool_max_size=4) as opened:
        yield opened


@pytest.fixture
async def without(database: Database) -> AsyncIterator[PostgresMemory]:
    """A memory without an embedder: all that it stores waits."""
    async with PostgresMemory(database.dsn) as opened:
        yield opened


def expected(contents: Sequence[str], dimensions: int = 8) -> dict[str, list[float]]:
    return {content: word_vector(content, dimensions) for content in contents}


CONTENTS = [f"content {number}" for number in range(25)]


async def test_what_waits_is_embedded_in_batches(
    memory: PostgresMemory, without: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await without.add_many(CONTENTS)
    told: list[tuple[int, int]] = []
    result = await memory.embed_pending(batch_size=10, progress=lambda *numbers: told.append(numbers))
    assert result == EmbedResult("words", embedded=25, changed=0, failures=0, failed=(), pending=0)
    assert told == [(10, 25), (20, 25), (25, 25)]
    assert await embeddings(database) == expected(CONTENTS)
    assert await spaces(database) == {"words": "active"}
    asked = len(embedder.asked)
    assert (await memory.embed_pending()).embedded == 0
    assert len(embedder.asked) == asked


async def test_a_limit_is_kept_and_other_namespaces_are_left_alone(
    memory: PostgresMemory, without: PostgresMemory, database: Database
) -> None:
    async with PostgresMemory(database.dsn, namespace="other") as other:
        await other.store("not mine")
    await without.add_many(CONTENTS)
    result = await memory.embed_pending(batch_size=10, limit=13)
    assert (result.embedded, result.pending) == (13, 12)
    assert (await memory.embed_pending(limit=0)).embedded == 0
    found = await embeddings(database)
    assert [content for content in CONTENTS if found[content]] == CONTENTS[:13]
    assert (await memory.embed_pending()).embedded == 12
    assert await embeddings(database, namespace="other") == {"not mine": None}


async def test_texts_that_the_embedder_refuses_stop_nothing_else(
    memory: PostgresMemory, without: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    bad = {"content 3", "content 4", "content 20"}
    embedder.fails = lambda texts: bool(bad & set(texts))
    await without.add_many(CONTENTS)
    result = await memory.embed_pending(batch_size=8)
    assert (result.embedded, result.failures, result.pending) == (22, 3, 3)
    found = await embeddings(database)
    assert {content for content, vector in found.items() if vector is None} == bad
    failed = {(await memory.get(failure.id)).content: failure.reason for failure in result.failed}
    assert failed.keys() == bad
    assert set(failed.values()) == {"the embedder failed: RuntimeError: the model is away"}
    only_bad = await memory.embed_pending()
    assert (only_bad.embedded, only_bad.failures) == (0, 3)


async def test_an_embedder_that_is_away_is_asked_no_more_than_needed(
    memory: PostgresMemory, without: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    await without.add_many(CONTENTS)
    embedder.fails = lambda _: len(embedder.asked) > 2
    with pytest.raises(EmbedderError, match="the model is away"):
        await memory.embed_pending(batch_size=10)
    assert len(embedder.asked) == 4
    assert sum(vector is not None for vector in (await embeddings(database)).values()) == 20
    embedder.fails = lambda _: False
    assert (await memory.embed_pending()).embedded == 5


async def test_who_cannot_embed_what_waits(
    memory: PostgresMemory, without: PostgresMemory, database: Database
) -> None:
    await memory.store("one")
    with pytest.raises(UsageError, match="needs the embedder"):
        await without.embed_pending()
    async with PostgresMemory(database.dsn, embedder=WordEmbedder("other")) as other:
        with pytest.raises(UsageError, match=r"active embedding space is 'words'.*reembed\('other'\)"):
            await other.embed_pending()
    async with memory.transaction() as inside:
        for call in (inside.embed_pending(), inside.reembed("words"), inside.drop_space("words")):
            with pytest.raises(UsageError, match="outside of a transaction"):
                await call
    with pytest.raises(InvalidInputError):
        await memory.embed_pending(batch_size=0)
    with pytest.raises(InvalidInputError):
        await memory.embed_pending(limit=-1)


async def test_a_content_that_changes_while_it_is_embedded_gets_the_vector_of_the_new_one(
    memory: PostgresMemory, without: PostgresMemory, database: Database, embedder: WordEmbedder
) -> None:
    for name in ("changed", "deleted", "archived", "embedded"):
        await without.add(name, id=name)
    embedder.delay = 0.5
    filling = asyncio.create_task(memory.embed_pending())
    await asyncio.sleep(0.25)
    await without.update("changed", content="new")
    await without.delete("deleted")
    await without.archive("archived")
    embedder.delay = 0
    await memory.update("embedded", content="embedded at once")
    result = await filling
    assert await embeddings(database) == expected(["new", "archived", "embedded at once"])
    assert (result.embedded, result.changed, result.pending) == (2, 3, 0)


async def test_many_fill_while_many_write_and_every_vector_is_that_of_its_content(
    memory: PostgresMemory, without: PostgresMemory, database: Database
) -> None:
    ids = [f"memory {number}" for number in range(12)]
    for id_ in ids:
        await without.add(id_, id=id_)
    chance = random.Random(7)
    over = False

    async def write(writer: PostgresMemory, name: str) -> None:
        for number in range(40):
            id_ = chance.choice(ids)
            if chance.random() < 0.2:
                await writer.delete(id_)
            await writer.add(f"{name} {number} of {id_}", id=id_, on_conflict="update")

    async def fill(filler: PostgresMemory) -> None:
        while not over:
            await filler.embed_pending(batch_size=5)

    async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as second:
        fillers = [asyncio.create_task(fill(one)) for one in (memory, second)]
        await asyncio.gather(write(without, "a"), write(memory, "b"), write(without, "c"))
        over = True
        await asyncio.gather(*fillers)
        found = await embeddings(database)
        assert len(found) == len(ids)
        assert all(vector in (None, word_vector(content)) for content, vector in found.items())
        await memory.embed_pending()
        assert await embeddings(database) == expected(list(found))


async def test_a_space_is_filled_beside_the_active_one_and_switched_to_and_back(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.add_many(CONTENTS)
    new = WordEmbedder("new", 5)
    result = await memory.reembed("new", embedder=new, batch_size=10)
    assert (result.space, result.embedded, result.pending) == ("new", 25, 0)
    assert await spaces(database) == {"words": "active", "new": "filling"}
    await memory.switch_space("new")
    await memory.switch_space("new")
    assert await spaces(database) == {"words": "retired", "new": "active"}
    assert await embeddings(database, "new") == expected(CONTENTS, 5)
    assert await embeddings(database) == expected(CONTENTS)
    await memory.switch_space("words")
    assert await spaces(database) == {"words": "active", "new": "retired"}
    first, second = await memory.spaces()
    assert (first.name, first.dimensions, first.distance, first.status) == ("words", 8, "cosine", "active")
    assert (first.embedded, first.pending, second.name, second.embedded) == (25, 0, "new", 25)
    assert await memory.drop_space("new", batch_size=10) == 25
    assert await spaces(database) == {"words": "active"}


async def test_writers_of_the_old_space_leave_what_is_filled_afterwards(
    memory: PostgresMemory, database: Database
) -> None:
    """An old process goes on after the switch; the new one embeds what it left."""
    await memory.add("one", id="one")
    await memory.add("two", id="two")
    new = WordEmbedder("new", 5)
    await memory.reembed("new", embedder=new)
    await memory.update("one", content="one changed")
    await memory.store("three")
    assert await embeddings(database, "new") == {
        "one changed": None,
        "two": word_vector("two", 5),
        "three": None,
    }
    assert (await memory.reembed("new", embedder=new)).embedded == 2
    await memory.switch_space("new")
    await memory.store("four")
    assert (await embeddings(database))["four"] == word_vector("four")
    async with PostgresMemory(database.dsn, embedder=new) as restarted:
        await restarted.store("five")
        listed = {space.name: space.pending for space in await restarted.spaces()}
        assert listed == {"words": 1, "new": 1}
        assert (await restarted.embed_pending()).embedded == 1
        assert await embeddings(database, "new") == expected(
            ["one changed", "two", "three", "four", "five"], 5
        )
        await restarted.drop_space("words")
    await memory.store("six")
    assert await embeddings(database, "new") == expected(
        ["one changed", "two", "three", "four", "five"], 5
    ) | {"six": None}


async def test_a_space_that_lacks_much_is_not_switched_to(memory: PostgresMemory, database: Database) -> None:
    await memory.add_many(CONTENTS)
    failing = WordEmbedder("new")
    failing.fails = lambda _: len(failing.asked) > 1
    with pytest.raises(EmbedderError):
        await memory.reembed("new", embedder=failing, batch_size=10)
    with pytest.raises(SpaceError, match="no embedding for 15 memories") as raised:
        await memory.switch_space("new", max_pending=14)
    assert (raised.value.namespace, raised.value.space) == ("default", "new")
    assert await spaces(database) == {"words": "active", "new": "filling"}
    with pytest.raises(SpaceError, match="is not there"):
        await memory.switch_space("none")
    await memory.switch_space("new", max_pending=15)
    assert await spaces(database) == {"words": "retired", "new": "active"}


async def test_a_reembed_that_is_cancelled_is_gone_on_with(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.add_many(CONTENTS)
    new = WordEmbedder("new")
    new.delay = 0.1
    task = asyncio.create_task(memory.reembed("new", embedder=new, batch_size=5))
    await new.has_been_asked(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    done = sum(vector is not None for vector in (await embeddings(database, "new")).values())
    assert done >= 10
    again = WordEmbedder("new")
    result = await memory.reembed("new", embedder=again, batch_size=5)
    assert (result.embedded, result.pending) == (25 - done, 0)
    assert await embeddings(database, "new") == expected(CONTENTS)


async def test_a_rate_is_kept(memory: PostgresMemory) -> None:
    await memory.add_many(CONTENTS)
    began = time.monotonic()
    await memory.reembed("new", embedder=WordEmbedder("new"), batch_size=5, rate=25)
    assert time.monotonic() - began >= 0.8
    for rate in (0, -1, float("nan"), True, "1"):
        with pytest.raises(InvalidInputError, match=r"^rate: "):
            await memory.reembed("new", embedder=WordEmbedder("new"), rate=rate)  # type: ignore[arg-type]


async def test_reembedding_what_cannot_be(memory: PostgresMemory, database: Database) -> None:
    await memory.store("one")
    with pytest.raises(InvalidValueError, match=r"^embedder: must be given"):
        await memory.reembed("new")
    with pytest.raises(InvalidValueError, match=r"^space: must not be 'hash'"):
        await memory.reembed("hash", embedder=WordEmbedder())
    with pytest.raises(InvalidEmbeddingError, match="holds vectors of 8 dimensions"):
        await memory.reembed("words", embedder=WordEmbedder(dimensions=5))
    assert (await memory.reembed("words")).embedded == 0
    assert await spaces(database) == {"words": "active"}


async def test_of_many_switches_at_once_one_space_is_active_at_every_moment(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.store("one")
    names = ["words", "a", "b", "c"]
    for name in names[1:]:
        await memory.reembed(name, embedder=WordEmbedder(name))
    over = False

    async def watch() -> int:
        connection = await asyncpg.connect(database.direct_dsn)
        looks = 0
        while not over:
            active = await connection.fetchval(
                "SELECT count(*) FROM memory.embedding_spaces WHERE status = 'active'"
            )
            assert active == 1
            looks += 1
        await connection.close()
        return looks

    watching = asyncio.create_task(watch())
    chance = random.Random(3)
    await asyncio.gather(*(memory.switch_space(chance.choice(names)) for _ in range(60)))
    over = True
    assert await watching > 5


async def test_what_cannot_be_dropped(memory: PostgresMemory, database: Database) -> None:
    await memory.store("one")
    with pytest.raises(SpaceError, match="is the active one"):
        await memory.drop_space("words")
    with pytest.raises(SpaceError, match="is not there"):
        await memory.drop_space("none")
    assert await embeddings(database) == expected(["one"])


async def test_dropping_under_writers_of_that_space_loses_no_memory(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.add_many(CONTENTS)
    await memory.reembed("new", embedder=WordEmbedder("new"))
    await memory.switch_space("new")

    async def write(name: str) -> None:
        for number in range(30):
            await memory.add(f"{name} {number}")

    writing = [asyncio.create_task(write(name)) for name in ("a", "b")]
    await asyncio.sleep(0.1)
    await asyncio.gather(memory.drop_space("words", batch_size=5), return_exceptions=False)
    await asyncio.gather(*writing)
    assert await spaces(database) == {"new": "active"}
    assert await memory.count() == 85
    assert set((await embeddings(database)).values()) == {None}


async def test_filling_a_space_that_is_dropped_says_so(memory: PostgresMemory) -> None:
    await memory.add_many(CONTENTS)
    new = WordEmbedder("new")
    new.delay = 0.2
    filling = asyncio.create_task(memory.reembed("new", embedder=new, batch_size=5))
    await new.has_been_asked(3)
    await memory.drop_space("new")
    with pytest.raises(SpaceError, match="was dropped while it was filled"):
        await filling


async def test_writers_that_never_pause_do_not_keep_a_reembed_going(
    memory: PostgresMemory, without: PostgresMemory
) -> None:
    await without.add_many(CONTENTS)
    over = False

    async def write() -> None:
        number = 0
        while not over:
            await without.store(f"new {number}")
            number += 1

    new = WordEmbedder("new")
    new.delay = 0.2
    writing = asyncio.create_task(write())
    async with asyncio.timeout(30):
        result = await memory.reembed("new", embedder=new, batch_size=1000)
    over = True
    await writing
    assert result.embedded >= 25
    assert len(new.asked) <= 3
