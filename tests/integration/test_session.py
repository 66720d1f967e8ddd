"""PostgresSession: flux's Session protocol on session_messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg
import flux.sessions
import pytest

from postgres_memory import ConversationMemory, PostgresMemory, PostgresSession, Session
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from tests.conftest import Database


@pytest.fixture
async def session(database: Database) -> AsyncIterator[PostgresSession]:
    async with PostgresSession(database.dsn, "s1") as opened:
        yield opened


def test_it_is_a_session_of_flux_and_ours() -> None:
    session = PostgresSession("postgresql://nowhere.invalid/db")
    assert isinstance(session, flux.sessions.Session)
    assert isinstance(session, Session)
    assert session.session_id
    assert session.session_id != PostgresSession("postgresql://nowhere.invalid/db").session_id


async def test_every_key_of_a_message_comes_back_in_order(session: PostgresSession) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hello", "metadata": {"a": 1}},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "arguments": {"n": 1e23}}]},
        {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "née 🦊"}]},
        {},
    ]
    await session.add_messages(messages)
    await session.add_messages([{"role": "user", "content": "last"}])
    assert await session.get_messages() == [*messages, {"role": "user", "content": "last"}]


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, [0, 1, 2, 3, 4]), (0, []), (2, [3, 4]), (9, [0, 1, 2, 3, 4])]
)
async def test_limit_gives_the_last_messages_in_order(
    session: PostgresSession, limit: int | None, expected: list[int]
) -> None:
    await session.add_messages([{"n": n} for n in range(5)])
    assert [message["n"] for message in await session.get_messages(limit)] == expected


async def test_a_bad_message_stores_none_of_them(session: PostgresSession) -> None:
    with pytest.raises(InvalidTypeError, match=r"messages\[1\]"):
        await session.add_messages([{"role": "user"}, cast(Any, "text")])
    with pytest.raises(InvalidValueError, match=r"messages\[1\]"):
        await session.add_messages([{"role": "user"}, {"content": "a\x00b"}])
    with pytest.raises(InvalidTypeError, match="messages"):
        await session.add_messages(cast(Any, {"role": "user"}))
    with pytest.raises(InvalidValueError, match="limit"):
        await session.get_messages(-1)
    assert await session.get_messages() == []


async def test_sessions_and_namespaces_are_apart(database: Database) -> None:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=2) as pool:
        one = PostgresSession(pool, "s")
        two = PostgresSession(pool, "t")
        other = PostgresSession(pool, "s", namespace="other")
        for name, session in (("one", one), ("two", two), ("other", other)):
            await session.add_messages([{"content": name}])
        await one.clear()
        assert await one.get_messages() == []
        assert await two.get_messages() == [{"content": "two"}]
        assert await other.get_messages() == [{"content": "other"}]
        await one.close()
        assert await pool.fetchval("SELECT 1") == 1


async def test_clearing_the_memory_leaves_the_messages(database: Database, session: PostgresSession) -> None:
    await session.add_messages([{"content": "stays"}])
    async with PostgresMemory(database.dsn) as memory:
        await memory.clear()
    assert await session.get_messages() == [{"content": "stays"}]


async def test_two_writers_at_once_lose_nothing(database: Database) -> None:
    async def write(name: str) -> None:
        async with PostgresSession(database.dsn, "shared", pool_max_size=2) as session:
            for n in range(20):
                await session.add_messages([{"by": name, "n": n}, {"by": name, "n": n + 0.5}])

    await asyncio.gather(*(write(name) for name in "abc"))
    async with PostgresSession(database.dsn, "shared") as session:
        messages = await session.get_messages()
    assert len(messages) == 120
    for name in "abc":
        own = [message["n"] for message in messages if message["by"] == name]
        assert own == sorted(own)


async def test_the_session_joins_a_transaction(database: Database, session: PostgresSession) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await session.add_messages([{"content": "gone"}], connection=connection)
        assert await session.get_messages(connection=connection) == [{"content": "gone"}]
        assert await session.get_messages() == []
        await transaction.rollback()
    finally:
        await connection.close()
    assert await session.get_messages() == []


async def test_conversation_memory_searches_a_postgres_session(session: PostgresSession) -> None:
    memory = ConversationMemory(session)
    await memory.store("I like Green tea", {"source": "chat"})
    await session.add_messages(
        [{"role": "assistant", "content": "green it is"}, {"role": "user", "content": None}]
    )
    found = await memory.search("GREEN")
    assert [(entry.content, entry.metadata) for entry in found] == [
        ("I like Green tea", {"role": "user"}),
        ("green it is", {"role": "assistant"}),
    ]
    await memory.clear()
    assert await session.get_messages() == []
