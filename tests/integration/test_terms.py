"""What a memory is found by: its words in the language of the namespace, pairs of letters, its date, its place."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.places import FIRST
from postgres_memory._sql.term_functions import (
    INDEXED_CHARACTERS,
    lexical_terms_function,
    thread_place_function,
)
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from tests.conftest import Database

MOMENT = datetime(2023, 5, 8, 23, 30, tzinfo=UTC)

if TYPE_CHECKING:
    from postgres_memory._pooling import Connection


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    opened = await asyncpg.connect(database.direct_dsn)
    yield opened
    await opened.close()


async def terms(
    connection: Connection, content: str, language: str = "english", namespace: str = "n"
) -> list[str]:
    """Return the terms of a content without the namespace's mark, which all must bear, and without the date's."""
    given = await connection.fetchval(
        "SELECT memory.lexical_terms($1, $2, $3, $4)", namespace, language, content, MOMENT
    )
    marks = {term[:4] for term in given}
    assert len(marks) == 1
    assert [term[4:] for term in given[-4:]] == ["@may", "@2023", "@8", "@monday"]
    return sorted({term[4:] for term in given[:-4]})


@pytest.mark.parametrize(
    ("language", "content", "found"),
    [
        ("english", "", []),
        ("english", "The running dogs, and a Dog!", ["dog", "run"]),
        ("english", "on the 31st of 2 months", ["2", "31", "31st", "month"]),
        ("english", "the Twenty1st", ["twenty1st"]),
        ("simple", "The running dogs", ["dogs", "running", "the"]),
        ("german", "Die Häuser am Fluss", ["fluss", "haus"]),
        ("english", "我喜欢茶", ["喜欢", "我喜", "欢茶", "我", "喜", "欢", "茶"]),
        ("english", "茶", ["茶"]),
        ("english", "likes 緑茶 tea", ["like", "tea", "緑茶", "緑", "茶"]),
        ("english", "물을 마셔요", ["물을", "마셔", "셔요", "물", "을", "마", "셔", "요"]),
        ("english", "お茶とパン", ["お茶", "茶と", "とパ", "パン", "茶"]),
        ("simple", "ﾊﾟﾝ と", ["パン", "と"]),
        ("english", "ฉันชอบชา", ["ชอ", "ชา", "ฉั", "ชอ", "บช", "อบ", "ัน", "นช"]),
        ("english", "a\x01b c", ["b", "c"]),
        ("english", "TCP/IP", ["tcp/ip", "tcp", "ip"]),
        ("english", "by e-mail.", ["e-mail", "e", "mail", "email"]),
        ("english", "in src/max_bytes.py", ["src/max_bytes.py", "src", "max", "byte", "py"]),
        ("english", "bob@example.com", ["bob@example.com", "bob", "exampl", "com"]),
        ("english", "run it.Then stop", ["run", "it.then", "stop"]),
        ("english", r"C:\Users\ana", ["c", "user", "ana"]),
        ("english", "at 10:30 for 4.50", ["10", "30", "4.50"]),
        ("simple", "see ABC-1234", ["see", "abc", "-1234", "1234", "abc1234"]),
        ("simple", "ＴＣＰ　ｆｕｌｌ", ["tcp", "full"]),
        ("simple", "cafe\u0301", ["café"]),
    ],
)
async def test_terms(connection: Connection, language: str, content: str, found: list[str]) -> None:
    assert await terms(connection, content, language) == sorted(set(found))


async def test_namespaces_share_no_terms(connection: Connection) -> None:
    query = """SELECT memory.lexical_terms($1, 'english', 'tea', now())
        && memory.lexical_terms($2, 'english', 'tea', now())"""
    assert await connection.fetchval(query, "one", "one")
    assert not await connection.fetchval(query, "one", "two")


@pytest.mark.parametrize(
    "content",
    [
        " ".join(f"word{number}" for number in range(150_000)),
        "-".join(f"𝒜{number}" for number in range(60_000)),
        "茶" * 400_000,
        "x" * 1_000_000,
        "/".join(f"a{number}" for number in range(100_000)),
    ],
    ids=["words", "hyphens", "letters", "one word", "path"],
)
async def test_a_content_of_any_size_is_stored(database: Database, content: str) -> None:
    async with PostgresMemory(database.dsn, max_content_bytes=2**22) as memory:
        await memory.store(content)
        assert [entry.content for entry in await memory.search(content[:100], limit=1)] == [content]


async def test_only_the_beginning_is_indexed(connection: Connection) -> None:
    content = "tea " + "x " * (INDEXED_CHARACTERS // 2) + "coffee"
    assert await terms(connection, content) == ["tea", "x"]


async def test_the_migrated_functions_are_those_of_this_version(connection: Connection) -> None:
    for name, made in (
        ("lexical_terms", lexical_terms_function("memory")),
        ("thread_place", thread_place_function("memory")),
    ):
        source = await connection.fetchval(
            "SELECT prosrc FROM pg_proc WHERE pronamespace = 'memory'::regnamespace AND proname = $1", name
        )
        assert source == made.split("$function$")[1]


async def places(connection: Connection, thread: str) -> list[int]:
    rows = await connection.fetch(
        """SELECT place - memory.thread_place($1) AS place FROM memory.memories
        WHERE thread_id = $1 ORDER BY seq""",
        thread,
    )
    return [row["place"] for row in rows]


async def test_memories_are_numbered_within_their_threads(database: Database, connection: Connection) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.store("without a thread")
        for number in range(3):
            await memory.add(f"a{number}", thread_id="a")
            await memory.add(f"b{number}", thread_id="b")
        await memory.add_many(
            [{"content": "a3", "thread_id": "a"}, "none", {"content": "a4", "thread_id": "a"}]
        )
        assert await places(connection, "a") == [FIRST, FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4]
        assert await places(connection, "b") == [FIRST, FIRST + 1, FIRST + 2]
        assert await connection.fetchval("SELECT count(*) FROM memory.memories WHERE place IS NULL") == 2


async def test_places_survive_a_change_of_thread_and_an_import(
    database: Database, connection: Connection
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for number in range(4):
            await memory.add(str(number), id=str(number), thread_id="a")
        await memory.add("b", thread_id="b")
        await memory.update("1", thread_id="b")
        await memory.update("2", thread_id="a")
        await memory.update("3", thread_id=None)
        await memory.add("again", id="0", thread_id="a", on_conflict="update")
        await memory.add_many([{"content": "more", "id": "2", "thread_id": "b"}], on_conflict="update")
        assert await places(connection, "a") == [FIRST]
        assert sorted(await places(connection, "b")) == [FIRST, FIRST + 1, FIRST + 2]
        written = io.BytesIO()
        await memory.export(written)
        await memory.clear()
        await memory.import_(io.BytesIO(written.getvalue()))
        assert await places(connection, "a") == [FIRST]
        assert await places(connection, "b") == [FIRST, FIRST + 1, FIRST + 2]


async def test_metadata_may_name_the_thread(database: Database) -> None:
    async with PostgresMemory(database.dsn, thread_field="session") as memory:
        await memory.store("stored", {"session": 7})
        await memory.store("without", {"other": 7})
        await memory.add("added", metadata={"session": "x"})
        await memory.add("given", metadata={"session": "x"}, thread_id="y")
        await memory.add_many([{"content": "loaded", "metadata": {"session": 7}}, "loaded without"])
        page = await memory.find(order_by="created_at")
        assert {record.content: record.thread_id for record in page} == {
            "stored": "7",
            "without": None,
            "added": "x",
            "given": "y",
            "loaded": "7",
            "loaded without": None,
        }
        for bad in (True, 1.5, ["a"], "", "x" * 300):
            with pytest.raises((InvalidTypeError, InvalidValueError), match=r"metadata\['session'\]"):
                await memory.store("bad", {"session": bad})


async def test_a_namespace_changes_its_language(database: Database, connection: Connection) -> None:
    async with (
        PostgresMemory(database.dsn) as memory,
        PostgresMemory(database.dsn, namespace="other") as other,
    ):
        await other.store("Die Häuser")
        await memory.store("Die Häuser")
        assert await memory.recall("Haus", min_score=0.01) == []
        assert await memory.set_language("german") == 1
        assert await memory.set_language("german") == 0
        await memory.add("Ein Haus")
        await memory.add_many(["Viele Häuser", {"content": "Des Hauses", "thread_id": "t"}])
        assert len(await memory.recall("Haus", min_score=0.01)) == 4
        assert await other.recall("Haus", min_score=0.01) == []
        for bad in (
            "klingon",
            "a b",
            "no.such",
            "'; drop",
            "a.b.c.d",
            "no.pg_catalog.german",
            "0",
            "3748",
            " -",
        ):
            with pytest.raises(InvalidValueError, match="language"):
                await memory.set_language(bad)
