"""What nobody should send, and answers that stay small whatever is stored."""

from __future__ import annotations

import json
import logging
from itertools import pairwise
from typing import Any

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.mcp.entities import MAX_NAME
from postgres_memory.mcp.settings import Bounds, Settings, Toolset
from tests.conftest import Database
from tests.integration.mcp_servers import GRAPH, inside
from tests.integration.test_mcp_knowledge_graph import entity, relation

INJECTIONS = [
    "'; DROP TABLE memory.memories; --",
    '"; SELECT 1',
    "$1",
    "%s %(x)s {x} :x",
    "\\' OR 1=1 --",
    "../../etc/passwd",
    "entity:nested",
    "entity-sha256:" + "0" * 64,
    "a\nb\r\tc",
    "﷽" * 200,
    "%_\\",
    "",
    " ",
    "😀",
]

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("store_memory", {}, "content"),
    ("store_memory", {"content": 5}, "content"),
    ("store_memory", {"content": ""}, "content"),
    ("store_memory", {"content": "x\0y"}, "NUL"),
    ("store_memory", {"content": "x" * 1_048_577}, "1048576"),
    ("store_memory", {"content": "x", "metadata": {"k": "y" * 1_048_577}}, "1048576"),
    ("store_memory", {"content": "x", "metadata": []}, "metadata"),
    ("store_memory", {"content": "x", "tags": ["t"] * 101}, "tags"),
    ("store_memory", {"content": "x", "tags": [""]}, "tags"),
    ("store_memory", {"content": "x", "importance": 2}, "importance"),
    ("store_memory", {"content": "x", "importance": "high"}, "importance"),
    ("store_memory", {"content": "x", "expires_at": "soon"}, "expires_at"),
    ("store_memory", {"content": "x", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
    ("store_memory", {"content": "x", "id": "mine"}, "id"),
    ("search_memories", {"query": "x", "limit": 0}, "limit"),
    ("search_memories", {"query": "x", "limit": -1}, "limit"),
    ("search_memories", {"query": "x", "filter": {"content": {"$regex": ".*"}}}, "$regex"),
    ("search_memories", {"query": "x", "filter": {"metadata.a": {"$in": list(range(200_000))}}}, "100000"),
    ("search_memories", {"query": "x" * 10_001}, "query"),
    ("get_memory", {"id": ""}, "id"),
    ("get_memory", {"id": "i" * 256}, "255"),
    ("get_memory", {"id": None}, "id"),
    ("update_memory", {"id": "x"}, "name at least one"),
    ("relate_memories", {"source_id": "x", "target_id": "y", "relation_type": "hates"}, "relation_type"),
    ("related_memories", {"id": "x", "max_depth": 1_000_000}, "max_depth"),
    ("list_memories", {"cursor": "made up"}, "cursor"),
    ("list_memories", {"order_by": "content; DROP TABLE memory.memories"}, "order_by"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
async def test_wrong_arguments_are_errors_of_the_tool(database: Database, case: int) -> None:
    tool, arguments, said = WRONG[case]
    async with inside(database) as call:
        problem = await call.problem(tool, **arguments)
        assert said in problem
        assert len(problem) < 2000
        assert "Traceback" not in problem
        assert (await call("list_memories"))["memories"] == []


async def test_no_tool_of_that_name(database: Database) -> None:
    from mcp.shared.exceptions import MCPError

    async with inside(database) as call:
        with pytest.raises(MCPError, match="there is no tool of this name"):
            await call("drop_all")


async def test_what_nobody_foresaw_is_told_without_its_text(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error may repeat what is stored; only DEBUG shows it."""
    from mcp.shared.exceptions import MCPError

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a secret")

    async with inside(database) as call:
        monkeypatch.setattr(PostgresMemory, "find", fail)
        with caplog.at_level(logging.INFO, "postgres_memory"), pytest.raises(MCPError) as raised:
            await call("list_memories")
    assert "secret" not in str(raised.value)
    assert "list_memories failed: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


async def test_names_are_only_names(database: Database) -> None:
    async with inside(database, GRAPH) as call:
        made = [entity(name, name, kind=name) for name in INJECTIONS]
        assert await call("create_entities", entities=made) == {"entities": made}
        edges = [
            relation(source, target, "; DROP TABLE memory.memory_relations")
            for source, target in pairwise(INJECTIONS)
        ]
        assert await call("create_relations", relations=edges) == {"relations": edges}
        graph = await call("read_graph")
        assert graph["entities"] == made
        assert sorted(map(json.dumps, graph["relations"])) == sorted(map(json.dumps, edges))
        for one in made:
            found = await call("search_nodes", query=one["name"])
            assert one in found["entities"]
            assert (await call("open_nodes", names=[one["name"]]))["entities"] == [one]
        await call("delete_entities", entityNames=INJECTIONS)
        assert await call("read_graph") == {"entities": [], "relations": []}


async def test_what_a_graph_cannot_hold_is_refused_whole(database: Database) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("create_entities", {"entities": [entity("n" * (MAX_NAME + 1))]}, "name"),
        (
            "create_entities",
            {"entities": [entity("a"), entity("b", kind="k" * (MAX_NAME + 1))]},
            "entityType",
        ),
        ("create_entities", {"entities": [entity("a"), entity("b\0")]}, "NUL"),
        ("create_entities", {"entities": [entity("a"), entity("b", "o" * 1_048_577)]}, "1048576"),
        ("create_entities", {"entities": "a"}, "entities"),
        ("create_entities", {"entities": [{"name": "a"}]}, "entityType"),
        ("create_relations", {"relations": [relation("a", "a")]}, "itself"),
        ("create_relations", {"relations": [relation("a", "b", "l" * 256)]}, "255"),
        ("read_graph", {"cursor": "made up"}, "cursor"),
        ("search_nodes", {}, "query"),
        ("open_nodes", {"names": [5]}, "names"),
    ]
    async with inside(database, GRAPH) as call:
        for tool, arguments, said in wrong:
            assert said in await call.problem(tool, **arguments), tool
        assert await call("read_graph") == {"entities": [], "relations": []}
    async with PostgresMemory(database.dsn) as memory:
        assert await memory.count(include_inactive=True) == 0


SMALL = Bounds(items=10, characters=2000)


async def test_answers_on_memories_stay_small_and_lead_to_the_rest(database: Database) -> None:
    texts = [f"{number} " + "word " * 300 for number in range(25)]
    async with PostgresMemory(database.dsn) as memory:
        for text in texts:
            await memory.add(text, metadata={"a": "b" * 300})
        long = await memory.add("".join(f"<{number}>" for number in range(2000)), metadata={"k": "v" * 3000})
    async with inside(database, Settings(bounds=SMALL)) as call:
        for tool, arguments in (("search_memories", {"query": "word"}), ("list_memories", {})):
            answer = await call(tool, limit=1000, **arguments)
            assert len(answer["memories"]) == SMALL.items
            assert len(json.dumps(answer)) < SMALL.characters + SMALL.items * 1000
            assert all(one["left_out"] for one in answer["memories"])
        assert (await call("search_memories", query="word", limit=1000))["left_out"]

        read, offset = "", 0
        while True:
            part = await call("get_memory", id=long.id, offset=offset)
            assert len(json.dumps(part)) < SMALL.characters + 1000
            assert part["metadata"] == {}
            read += part["content"]
            if not any("offset" in note for note in part["left_out"]):
                break
            offset = len(read)
        assert read == long.content

        seen, cursor = [], None
        while True:
            page = await call("list_memories", limit=7, cursor=cursor, order_by="created_at")
            seen += [one["content"].split()[0] for one in page["memories"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert seen[:-1] == [str(number) for number in range(25)]


async def test_answers_on_a_graph_stay_small_and_lead_to_the_rest(database: Database) -> None:
    entities = [entity(f"e{number}", *(f"{part} of {number}" for part in range(40))) for number in range(25)]
    hub = [relation("e0", f"e{number}") for number in range(1, 25)]
    settings = Settings(Toolset.KNOWLEDGE_GRAPH, bounds=SMALL)
    async with inside(database, settings) as call:
        await call("create_entities", entities=entities)
        await call("create_relations", relations=hub)
        names, relations, cursor = [], [], None
        while True:
            graph = await call("read_graph", **({"cursor": cursor} if cursor else {}))
            assert len(graph["entities"]) <= SMALL.items
            texts = [text for one in graph["entities"] for text in one["observations"]]
            texts += [text for one in graph["relations"] for text in one.values()]
            assert sum(map(len, texts)) <= SMALL.characters
            names += [one["name"] for one in graph["entities"]]
            relations += graph["relations"]
            following = [note for note in graph.get("left_out", []) if note.startswith("entities:")]
            if not following:
                break
            cursor = (
                following[0]
                .removeprefix("entities: call read_graph, with cursor ")
                .removesuffix(", for more")
            )
        assert names == [f"e{number}" for number in range(25)]
        assert sorted(map(json.dumps, relations)) == sorted(map(json.dumps, hub))

        observations: list[str] = []
        while len(observations) < 40:
            opened = await call("open_nodes", names=["e3"], offset=len(observations))
            assert opened["entities"][0]["observations"]
            observations += opened["entities"][0]["observations"]
        assert observations == entities[3]["observations"]
        many = await call("open_nodes", names=[f"e{number}" for number in range(25)])
        assert len(many["entities"]) == SMALL.items
        assert any("10 of 25" in note for note in many["left_out"])
