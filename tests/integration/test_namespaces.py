"""A namespace is an island: no search, no clear, no character in its name reaches another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from postgres_memory.postgres import Verbs

from ..conftest import Database

NAMESPACES = [
    "default",
    "Default",
    "DEFAULT",
    "default ",
    " default",
    "a%",
    "ab",
    "a_",
    "a.b",
    "a'b",
    'a"b',
    "a''b",
    "a;--",
    "a\\b",
    "a\nb",
    "$1",
    ":name",
    "%s",
    "{}",
    "🧠",
    "é",
    "e\u0301",  # the same to the eye, another string
    "x" * 255,
    "x" * 254,
    "é" * 127 + "x",
]


@asynccontextmanager
async def pool_of(database: Database) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=4) as pool:
        yield pool


async def test_search_and_clear_touch_their_own_only(database: Database) -> None:
    async with pool_of(database) as pool:
        memories = {name: PostgresMemory(pool, namespace=name) for name in NAMESPACES}
        for position, memory in enumerate(memories.values()):
            await memory.store("the same tea", {"position": position})
            await memory.store(f"other tea {position}")
        for position, (name, memory) in enumerate(memories.items()):
            assert memory.namespace == name
            entries = await memory.search("the same tea", 99)
            assert [entry.content for entry in entries] == ["the same tea", f"other tea {position}"]
            assert entries[0].metadata == {"position": position}
        left = dict(memories)
        for name, memory in memories.items():
            await memory.clear()
            del left[name]
            assert await memory.search("the same tea", 99) == []
            counts = await asyncio.gather(*(other.search("tea", 99) for other in left.values()))
            assert [len(found) for found in counts] == [2] * len(left)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


@given(name=names, other=names)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_two_names_are_two_namespaces(memory: PostgresMemory, name: str, other: str) -> None:
    async with memory.transaction() as transaction:
        first, second = (Verbs(replace(transaction._context, namespace=used)) for used in (name, other))
        await first.store("one")
        seen = await second.search("one")
        assert [entry.content for entry in seen] == (["one"] if name == other else [])
        await second.clear()
        assert len(await first.search("one")) == (0 if name == other else 1)
        await first.clear()


async def test_the_default_is_default(database: Database) -> None:
    async with pool_of(database) as pool:
        await PostgresMemory(pool).store("tea")
        assert len(await PostgresMemory(pool, namespace="default").search("tea")) == 1
        assert await pool.fetchval("SELECT namespace FROM memory.memories") == "default"


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, "a\0b", "\ud800"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^namespace: ") as caught:
        PostgresMemory("postgresql://nowhere.invalid/db", namespace=name)
    assert caught.value.argument == "namespace"


@pytest.mark.parametrize("name", [None, 7, b"default", ["default"]])
def test_names_of_the_wrong_type(name: str) -> None:
    with pytest.raises(InvalidTypeError, match=r"^namespace: "):
        PostgresMemory("postgresql://nowhere.invalid/db", namespace=name)


async def test_only_active_memories_that_have_not_expired_are_seen(
    memory: PostgresMemory, database: Database
) -> None:
    for content in ("tea seen", "tea superseded", "tea archived", "tea expired", "tea expires later"):
        await memory.store(content)
    change = (
        "WITH changed AS (UPDATE memory.memories SET {0} WHERE content = $1 RETURNING namespace, seq) "
        "UPDATE memory.memory_hash_embeddings h SET {0} FROM changed c "
        "WHERE (h.namespace, h.seq) = (c.namespace, c.seq)"
    )
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute(change.format("status = 'superseded'"), "tea superseded")
        await connection.execute(change.format("status = 'archived'"), "tea archived")
        await connection.execute(change.format("expires_at = now() - interval '1 ms'"), "tea expired")
        await connection.execute(change.format("expires_at = now() + interval '1 h'"), "tea expires later")
        for query in ("tea", "tea expired and a query so long that it takes the other statement " * 300):
            found = await memory.search(query, 99)
            assert sorted(entry.content for entry in found) == ["tea expires later", "tea seen"]
        assert len(await memory.search("tea", 1)) == 1
        # Clearing takes the unseen with it.
        await memory.clear()
        for table in ("memories", "memory_hash_embeddings"):
            assert await connection.fetchval(f"SELECT count(*) FROM memory.{table}") == 0
    finally:
        await connection.close()


async def test_a_limit_is_filled_although_most_memories_are_unseen(
    memory: PostgresMemory, database: Database
) -> None:
    for position in range(20):
        await memory.store(f"tea {position}")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute(
            "UPDATE memory.memory_hash_embeddings SET status = 'archived' "
            "WHERE seq IN (SELECT seq FROM memory.memory_hash_embeddings ORDER BY seq LIMIT 15)"
        )
    finally:
        await connection.close()
    assert len(await memory.search("tea 1", 5)) == 5
