from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from flux.memory import ConversationMemory as FluxConversationMemory
from flux.sessions import InMemorySession, SQLiteSession
from hypothesis import given
from hypothesis import strategies as st

from postgres_memory.conversation import ConversationMemory
from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_memory.protocol import Session

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "I like TEA."},
    {"role": "assistant", "content": "Noted: tea."},
    {"role": "user", "content": "And coffee"},
]


@pytest.fixture(params=["memory", "sqlite"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    if request.param == "memory":
        return InMemorySession()
    return SQLiteSession(str(tmp_path / "sessions.db"))


async def over(messages: list[dict[str, Any]]) -> ConversationMemory:
    session = InMemorySession()
    await session.add_messages(messages)
    return ConversationMemory(session)


async def test_search_finds_messages_in_order_whatever_the_case(session: Session) -> None:
    await session.add_messages(MESSAGES)
    memory = ConversationMemory(session)
    found = await memory.search("Tea")
    assert [(entry.content, entry.metadata, entry.score) for entry in found] == [
        ("I like TEA.", {"role": "user"}, 0.0),
        ("Noted: tea.", {"role": "assistant"}, 0.0),
    ]
    assert await memory.search("milk") == []


async def test_an_empty_query_finds_all_up_to_the_limit(session: Session) -> None:
    await session.add_messages(MESSAGES)
    memory = ConversationMemory(session)
    assert [entry.content for entry in await memory.search("")] == [
        message["content"] for message in MESSAGES
    ]
    assert [entry.content for entry in await memory.search("", 2)] == ["Be brief.", "I like TEA."]
    assert await memory.search("", 0) == []
    await session.add_messages(MESSAGES)
    assert len(await memory.search("")) == 5
    assert len(await memory.search("", 10**30)) == 8


async def test_store_adds_a_user_message_and_metadata_only_where_there_is_any(session: Session) -> None:
    memory = ConversationMemory(session)
    await memory.store("plain")
    await memory.store("empty", {})
    await memory.store("rich", {"source": {"page": 1e23}})
    assert await session.get_messages() == [
        {"role": "user", "content": "plain"},
        {"role": "user", "content": "empty"},
        {"role": "user", "content": "rich", "metadata": {"source": {"page": 1e23}}},
    ]
    assert [entry.content for entry in await memory.search("RICH")] == ["rich"]


async def test_clear_clears_the_session(session: Session) -> None:
    await session.add_messages(MESSAGES)
    memory = ConversationMemory(session)
    await memory.clear()
    assert await session.get_messages() == []
    assert await memory.search("") == []


async def test_stored_metadata_is_a_copy() -> None:
    session = InMemorySession()
    metadata = {"tags": ["a"]}
    await ConversationMemory(session).store("text", metadata)
    metadata["tags"].append("b")
    assert (await session.get_messages())[0]["metadata"] == {"tags": ["a"]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}], "one two"),
        (["one ", {"type": "text", "text": "two"}], "one two"),
        ([{"type": "input_text", "text": "one "}, {"type": "output_text", "text": "two"}], "one two"),
        ([{"text": "no type"}], "no type"),
        ([{"type": "image_url", "image_url": {"url": "…"}}, {"type": "text", "text": "seen"}], "seen"),
        ([{"type": "thinking", "text": "hidden"}, {"type": "text", "text": None}, 7, None, ["x"]], ""),
        ([{"type": ["text"], "text": "odd"}, {"type": "text"}], ""),
        ([], ""),
        ("", ""),
    ],
)
async def test_text_parts_are_joined(content: Any, text: str) -> None:
    memory = await over([{"role": "user", "content": content}])
    assert [entry.content for entry in await memory.search("")] == [text]
    if text:
        assert [entry.content for entry in await memory.search(text.upper())] == [text]
    assert await memory.search("hidden") == []


async def test_messages_without_text_do_not_crash_a_search() -> None:
    memory = await over(
        [
            {"role": "assistant", "content": None, "tool_calls": [{}]},
            {"role": "assistant"},
            {"role": "tool", "content": 7},
            {"content": "who said this?"},
        ]
    )
    assert [(entry.content, entry.metadata) for entry in await memory.search("")] == [
        ("", {"role": "assistant"}),
        ("who said this?", {"role": "unknown"}),
    ]


async def test_limit_counts_found_messages_only() -> None:
    memory = await over([{"content": None}, {"content": "no"}, {"content": "yes 1"}, {"content": "yes 2"}])
    assert [entry.content for entry in await memory.search("YES", 1)] == ["yes 1"]


@given(
    st.lists(
        st.fixed_dictionaries({"content": st.text("aAbBéÉ ")}, optional={"role": st.text("ru")}), max_size=9
    ),
    st.text("aAbBéÉ ", max_size=2),
    st.integers(0, 10),
)
async def test_flux_finds_the_same(messages: list[dict[str, Any]], query: str, limit: int) -> None:
    session = InMemorySession()
    await session.add_messages(messages)
    ours = await ConversationMemory(session).search(query, limit)
    assert ours == await FluxConversationMemory(session).search(query, limit)


@pytest.mark.parametrize(
    ("limit", "kind"), [(-1, InvalidValueError), (True, InvalidTypeError), (1.0, InvalidTypeError)]
)
async def test_bad_limits_are_refused(limit: Any, kind: type[Exception]) -> None:
    memory = await over(MESSAGES)
    with pytest.raises(kind, match=r"^limit: "):
        await memory.search("tea", limit)


@pytest.mark.parametrize(
    ("content", "metadata", "argument"),
    [
        (None, None, "content"),
        ("a\0", None, "content"),
        ("a", [1], "metadata"),
        ("a", {"x": {1}}, 'metadata["x"]'),
    ],
)
async def test_bad_input_is_refused_and_nothing_is_added(content: Any, metadata: Any, argument: str) -> None:
    session = InMemorySession()
    with pytest.raises(InvalidInputError) as caught:
        await ConversationMemory(session).store(content, metadata)
    assert caught.value.argument == argument
    assert await session.get_messages() == []


@pytest.mark.parametrize("query", [None, b"a", "a\0"])
async def test_a_bad_query_is_refused(query: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^query: "):
        await (await over(MESSAGES)).search(query)
