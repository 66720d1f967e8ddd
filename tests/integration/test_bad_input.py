"""Bad input is refused with the right error before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from postgres_memory import MemoryPermissions, MemoryRelation, MemoryRelationType, PostgresMemory
from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError

from ..conftest import Database

MIB = 1_048_576
SECRET = "s3cret"

BAD_TEXTS: dict[str, tuple[Any, type[InvalidInputError]]] = {
    "nul": (f"{SECRET} \0", InvalidValueError),
    "nul first": ("\0", InvalidValueError),
    "high surrogate": (f"{SECRET} \ud83d", InvalidValueError),
    "low surrogate": ("\udc00", InvalidValueError),
    "surrogates the wrong way round": ("\ude00\ud83d", InvalidValueError),
    "pair of surrogates": ("\ud83d\ude00", InvalidValueError),
    "surrogate in a long text": ("x" * 60_000 + "\udfff", InvalidValueError),
    "none": (None, InvalidTypeError),
    "int": (7, InvalidTypeError),
    "bytes": (SECRET.encode(), InvalidTypeError),
    "list": ([SECRET], InvalidTypeError),
    "one byte too long": (SECRET + "x" * (MIB - len(SECRET) + 1), InvalidValueError),
    "one letter too long": ("é" * (MIB // 2) + "x", InvalidValueError),
    "far too long": ("x" * (20 * MIB), InvalidValueError),
}

BAD_METADATA: dict[str, tuple[Any, str]] = {
    "list": ([1], "metadata"),
    "str": ("{}", "metadata"),
    "number": (3, "metadata"),
    "nan": ({"a": float("nan")}, "metadata['a']"),
    "infinity": ({"a": [1, {"b": float("-inf")}]}, "metadata['a'][1]['b']"),
    "object": ({"a": object()}, "metadata['a']"),
    "bytes": ({"a": b"x"}, "metadata['a']"),
    "set": ({"a": {1}}, "metadata['a']"),
    "nul in a value": ({"a": f"{SECRET}\0"}, "metadata['a']"),
    "surrogate in a value": ({"a": ["\ud800"]}, "metadata['a'][0]"),
    "nul in a key": ({"a\0": 1}, "metadata"),
    "surrogate in a key": ({"a": {"\ud800": 1}}, "metadata['a']"),
    "key that is no str": ({1: 2}, "metadata"),
}


async def rows(database: Database) -> int:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        return int(
            await connection.fetchval(
                "SELECT (SELECT count(*) FROM memory.memories) + "
                "(SELECT count(*) FROM memory.memory_hash_embeddings)"
            )
        )
    finally:
        await connection.close()


async def refused(call: Callable[[], Awaitable[object]], kind: type[InvalidInputError]) -> InvalidInputError:
    with pytest.raises(kind) as caught:
        await call()
    assert type(caught.value) is kind
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 300
    return caught.value


async def test_texts(memory: PostgresMemory, database: Database) -> None:
    for name, (text, kind) in BAD_TEXTS.items():
        assert (await refused(partial(memory.store, text), kind)).argument == "content", name
        assert (await refused(partial(memory.search, text), kind)).argument == "query", name
        # What is refused is refused whatever else is asked.
        assert (await refused(partial(memory.search, text, 0), kind)).argument == "query", name
    assert await rows(database) == 0


async def test_metadata(memory: PostgresMemory, database: Database) -> None:
    for name, (metadata, place) in BAD_METADATA.items():
        with pytest.raises(InvalidInputError) as caught:
            await memory.store("content", metadata)
        assert caught.value.argument.replace('"', "'").startswith(place), name
        assert SECRET not in str(caught.value), name
    assert await rows(database) == 0


async def test_a_transaction_goes_on_after_refused_input(memory: PostgresMemory, database: Database) -> None:
    async with memory.transaction() as transaction:
        await transaction.store("before")
        with pytest.raises(InvalidValueError):
            await transaction.store("\0")
        await transaction.store("after")
    assert await rows(database) == 4


async def test_empty_content_is_content(memory: PostgresMemory, database: Database) -> None:
    for _ in range(2):
        await memory.store("")
    assert await rows(database) == 4
    assert [(e.content, e.metadata, e.score) for e in await memory.search("")] == [("", {}, 0.0)] * 2
    assert [entry.score for entry in await memory.search("something")] == [0.0, 0.0]


async def test_the_longest_content(memory: PostgresMemory) -> None:
    for text in ("x" * MIB, "é" * (MIB // 2), "🧠" * (MIB // 4)):
        await memory.store(text)
        assert (await memory.search(text, 1))[0].content == text


async def test_limits_that_are_refused(memory: PostgresMemory) -> None:
    for limit in (-1, -(2**70)):
        assert (await refused(partial(memory.search, "tea", limit), InvalidValueError)).argument == "limit"
    wrong: list[Any] = [1.0, "1", None, True, float("nan"), [1]]
    for limit in wrong:
        assert (await refused(partial(memory.search, "tea", limit), InvalidTypeError)).argument == "limit"


async def test_limits(memory: PostgresMemory) -> None:
    for content in ("tea", "tee", "toe"):
        await memory.store(content)
    assert await memory.search("tea", 0) == []
    assert await memory.search("tea", limit=0) == []
    assert [entry.content for entry in await memory.search("tea", 1)] == ["tea"]
    for limit in (3, 4, 1000, 2**31, 2**63 - 1, 2**63, 10**30):
        assert [entry.content for entry in await memory.search("tea", limit)] == ["tea", "tee", "toe"]
    for _ in range(3):
        await memory.store("more tea")
    assert len(await memory.search("tea")) == 5


class Loud(str):
    """A str with a mind of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return "another text"

    def lower(self) -> str:
        return "yet another"

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"and another"


async def test_a_subclass_of_str_counts_as_its_characters(memory: PostgresMemory) -> None:
    await memory.store(Loud("green tea"))
    (entry,) = await memory.search(Loud("green tea"))
    assert (entry.content, entry.score) == ("green tea", 1.0)
    assert type(entry.content) is str


async def test_a_record_of_subclasses_of_str_is_one_of_their_characters(memory: PostgresMemory) -> None:
    await memory.add("target", id="target")
    relation = MemoryRelation(Loud("target"), MemoryRelationType.RELATED, label=Loud("label"))
    fields: dict[str, Any] = {
        "tags": [Loud("tag")],
        "thread_id": Loud("thread"),
        "session_id": Loud("session"),
        "permissions": MemoryPermissions(Loud("owner"), (Loud("reader"),)),
        "relations": [relation],
    }
    added = await memory.add(Loud("green tea"), id=Loud("added"), **fields)
    result = await memory.add_many([{"content": Loud("black tea"), "id": Loud("loaded"), **fields}])
    assert result.stored == 1
    loaded = await memory.get("loaded")
    assert (added.id, added.content, loaded.content) == ("added", "green tea", "black tea")
    for record in (added, loaded):
        (kept,) = record.relations
        owner = record.permissions.owner
        texts = [record.id, record.content, record.thread_id, record.session_id, owner, kept.label]
        assert {type(text) for text in (*texts, kept.target_id)} == {str}
    assert added == await memory.get("added")
    assert loaded.permissions == added.permissions
    assert (await memory.verify()).ok
    update = await memory.add_many([{"content": "white tea", "id": Loud("loaded")}], on_conflict="update")
    assert update.stored == 1
    assert (await memory.get("loaded")).content == "white tea"


@pytest.mark.parametrize("bad", ["", "\0", None])
async def test_an_id_is_refused_under_the_name_of_its_argument(memory: PostgresMemory, bad: Any) -> None:
    for verb in (memory.get, memory.history, memory.restore, memory.archive, memory.delete, memory.relations):
        with pytest.raises(InvalidInputError) as caught:
            await verb(bad)
        assert caught.value.argument == "id"
    with pytest.raises(InvalidInputError) as caught:
        await memory.get_many(["x", bad])
    assert caught.value.argument == "ids[1]"


async def test_metadata_does_not_outgrow_its_limit_by_merging(memory: PostgresMemory, tmp_path: Path) -> None:
    half = "x" * (MIB // 2)
    before = await memory.add("text", metadata={"a": half})
    with pytest.raises(InvalidValueError, match="merged with what is there, must be at most") as caught:
        await memory.update(before.id, metadata={"b": half}, metadata_mode="merge")
    assert caught.value.argument == "metadata"
    async with memory.transaction() as inside:
        with pytest.raises(InvalidValueError, match="merged with what is there"):
            await inside.update(before.id, metadata={"b": half}, metadata_mode="merge")
        await inside.store("the transaction goes on")
    assert await memory.get(before.id) == before
    after = await memory.update(before.id, metadata={"b": half[:-20]}, metadata_mode="merge")
    assert len(after.metadata) == 2
    await memory.export(tmp_path / "file")
    await memory.clear()
    assert (await memory.import_(tmp_path / "file")).stored == 2


async def test_a_thread_named_by_a_subclass_of_str_has_its_characters(database: Database) -> None:
    async with PostgresMemory(database.dsn, thread_field="thread") as memory:
        await memory.store("text", {"thread": Loud("tea talk")})
        (record,) = await memory.find()
    assert record.thread_id == record.metadata["thread"] == "tea talk"


async def test_the_size_limit_is_configurable(database: Database) -> None:
    async with PostgresMemory(database.dsn, max_content_bytes=10) as small:
        await small.store("x" * 10)
        await small.store("é" * 5)
        for text in ("x" * 11, "é" * 5 + "x"):
            assert "10 bytes" in str(await refused(partial(small.store, text), InvalidValueError))
            await refused(partial(small.search, text), InvalidValueError)
        assert await rows(database) == 4
    async with PostgresMemory(database.dsn, max_content_bytes=2 * MIB, namespace="large") as large:
        text = "ab" * MIB
        await large.store(text)
        assert [entry.score for entry in await large.search(text)] == [1.0]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"max_content_bytes": 0}, InvalidValueError),
        ({"max_content_bytes": 16 * MIB + 1}, InvalidValueError),
        ({"max_content_bytes": "1"}, InvalidTypeError),
        ({"pool_max_size": 0}, InvalidValueError),
        ({"pool_max_size": 2, "pool_min_size": 3}, InvalidValueError),
        ({"pool_min_size": -1}, InvalidValueError),
        ({"pool_min_size": 1.5}, InvalidTypeError),
        ({"schema": ""}, InvalidValueError),
        ({"schema": "x" * 64}, InvalidValueError),
        ({"schema": "pg_memory"}, InvalidValueError),
        ({"schema": None}, InvalidTypeError),
    ],
)
def test_arguments_of_the_constructor(arguments: dict[str, Any], kind: type[InvalidInputError]) -> None:
    with pytest.raises(kind) as caught:
        PostgresMemory("postgresql://nowhere.invalid/db", **arguments)
    assert caught.value.argument == next(iter(arguments))


@pytest.mark.parametrize("dsn", [7, b"postgresql://x", object(), ["postgresql://x"]])
def test_things_that_are_no_database(dsn: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^dsn: "):
        PostgresMemory(dsn)
