"""The nine tools of the reference memory server, on our tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from postgres_memory import MemoryStatus, PostgresMemory
from tests.conftest import Database
from tests.integration.mcp_servers import (
    GRAPH,
    KNOWLEDGE_GRAPH,
    Caller,
    http_server,
    inside,
    over_http,
    over_stdio,
    text_of,
)

#: What @modelcontextprotocol/server-memory 2026.8.31 lists: arguments, results, and what a call does
#: (read only, destructive, idempotent).
ENTITY = {"name": "string", "entityType": "string", "observations": ["string"]}
RELATION = {"from": "string", "to": "string", "relationType": "string"}
WHOLE = {"entities": [ENTITY], "relations": [RELATION]}
DONE = {"success": "boolean", "message": "string"}
ADDS, DELETES, READS = (False, False, False), (False, True, True), (True, False, True)
REFERENCE: dict[str, tuple[dict[str, object], object, tuple[bool, bool, bool]]] = {
    "create_entities": ({"entities": [ENTITY]}, {"entities": [ENTITY]}, ADDS),
    "create_relations": ({"relations": [RELATION]}, {"relations": [RELATION]}, ADDS),
    "add_observations": (
        {"observations": [{"entityName": "string", "contents": ["string"]}]},
        {"results": [{"entityName": "string", "addedObservations": ["string"]}]},
        ADDS,
    ),
    "delete_entities": ({"entityNames": ["string"]}, DONE, DELETES),
    "delete_observations": (
        {"deletions": [{"entityName": "string", "observations": ["string"]}]},
        DONE,
        DELETES,
    ),
    "delete_relations": ({"relations": [RELATION]}, DONE, DELETES),
    "read_graph": ({}, WHOLE, READS),
    "search_nodes": ({"query": "string"}, WHOLE, READS),
    "open_nodes": ({"names": ["string"]}, WHOLE, READS),
}


def required(schema: dict[str, Any]) -> object:
    """Return what a schema asks for, as in `REFERENCE`."""
    if schema["type"] == "array":
        return [required(schema["items"])]
    if schema["type"] == "object":
        return {name: required(schema["properties"][name]) for name in schema.get("required", [])}
    return schema["type"]


async def test_the_tools_are_those_of_the_reference_server(database: Database) -> None:
    async with inside(database, GRAPH) as call:
        listed = (await call.client.list_tools()).tools
    described = {}
    for tool in listed:
        hints = tool.annotations
        assert hints is not None
        assert tool.output_schema is not None
        effect = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        described[tool.name] = (required(tool.input_schema), required(tool.output_schema), effect)
        assert "$ref" not in json.dumps(tool.input_schema) + json.dumps(tool.output_schema)
    assert described == REFERENCE
    ours = {name for tool in listed for name in tool.input_schema["properties"]} - {
        name for arguments, _, _ in REFERENCE.values() for name in arguments
    }
    assert ours == {"cursor", "offset"}


def entity(name: str, *observations: str, kind: str = "thing") -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(source: str, target: str, kind: str = "knows") -> dict[str, str]:
    return {"from": source, "to": target, "relationType": kind}


async def whole(call: Caller) -> tuple[list[Any], list[Any]]:
    graph = await call("read_graph")
    assert set(graph) == {"entities", "relations"}
    return graph["entities"], graph["relations"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_graph_is_written_and_read(database: Database, transport: str) -> None:
    if transport == "stdio":
        async with over_stdio(database, *KNOWLEDGE_GRAPH, mode="legacy") as call:
            await write_and_read(call)
    else:
        async with http_server(database, *KNOWLEDGE_GRAPH) as url, over_http(url) as call:
            await write_and_read(call)


async def write_and_read(call: Caller) -> None:
    ana, ben = entity("Ana", "likes tea", "lives in Porto", kind="person"), entity("Ben", kind="person")
    assert await call("create_entities", entities=[ana, ben]) == {"entities": [ana, ben]}
    other = entity("Ana", "something else")
    assert await call("create_entities", entities=[other, entity("Tea")]) == {"entities": [entity("Tea")]}

    knows, likes = relation("Ana", "Ben"), relation("Ana", "Tea", "likes very much")
    assert await call("create_relations", relations=[knows, likes]) == {"relations": [knows, likes]}
    assert await call("create_relations", relations=[likes]) == {"relations": []}
    assert await call("create_relations", relations=[relation("Ana", "Tea", "")]) == {
        "relations": [relation("Ana", "Tea", "")]
    }
    await call("delete_relations", relations=[relation("Ana", "Tea", ""), relation("Tea", "Nobody")])

    added = await call(
        "add_observations",
        observations=[
            {"entityName": "Ana", "contents": ["likes tea", "plays chess"]},
            {"entityName": "Ana", "contents": ["plays chess", "plays go"]},
        ],
    )
    assert added == {
        "results": [
            {"entityName": "Ana", "addedObservations": ["plays chess"]},
            {"entityName": "Ana", "addedObservations": ["plays go"]},
        ]
    }
    now = entity("Ana", "likes tea", "lives in Porto", "plays chess", "plays go", kind="person")
    assert await whole(call) == ([now, ben, entity("Tea")], [knows, likes])

    found = await call("search_nodes", query="PORTO")
    assert (found["entities"], found["relations"]) == ([now], [knows, likes])
    found = await call("search_nodes", query="person")
    assert found["entities"] == [now, ben]
    assert (await call("search_nodes", query="Porto\nplays"))["entities"] == []
    assert len((await call("search_nodes", query=""))["entities"]) == 3
    opened = await call("open_nodes", names=["Tea", "Nobody", "Tea"])
    assert (opened["entities"], opened["relations"]) == ([entity("Tea")], [likes])

    done = await call(
        "delete_observations",
        deletions=[
            {"entityName": "Ana", "observations": ["plays go", "never said"]},
            {"entityName": "Nobody", "observations": ["x"]},
        ],
    )
    assert done == {"success": True, "message": "Observations deleted successfully"}
    done = await call("delete_entities", entityNames=["Ben", "Nobody"])
    assert done == {"success": True, "message": "Entities deleted successfully"}
    left = entity("Ana", "likes tea", "lives in Porto", "plays chess", kind="person")
    assert await whole(call) == ([left, entity("Tea")], [likes])
    done = await call("delete_relations", relations=[likes])
    assert done == {"success": True, "message": "Relations deleted successfully"}
    assert await whole(call) == ([left, entity("Tea")], [])


async def test_texts_are_those_of_the_reference_server(database: Database) -> None:
    async with inside(database, GRAPH) as call:

        async def text(tool: str, **arguments: Any) -> str:
            return text_of(await call.client.call_tool(tool, arguments))

        assert await text("create_entities", entities=[entity("Zoë", "ü")]) == json.dumps(
            [entity("Zoë", "ü")], indent=2, ensure_ascii=False
        )
        assert json.loads(await text("read_graph")) == {"entities": [entity("Zoë", "ü")], "relations": []}
        assert await text("delete_entities", entityNames=["Zoë"]) == "Entities deleted successfully"


async def test_observations_of_several_entities_are_all_added_or_none(database: Database) -> None:
    async with inside(database, GRAPH) as call:
        await call("create_entities", entities=[entity("there")])
        additions = [{"entityName": name, "contents": ["new"]} for name in ("there", "nowhere")]
        problem = await call.problem("add_observations", observations=additions)
        assert problem == "Entity with name nowhere not found"
        assert await whole(call) == ([entity("there")], [])


async def test_a_relation_may_come_before_its_ends(database: Database) -> None:
    long = "long " * 100
    async with inside(database, GRAPH) as call:
        early = [relation("later", "never"), relation("never", long)]
        await call("create_relations", relations=early)
        assert await whole(call) == ([], early)
        assert (await call("search_nodes", query="later"))["entities"] == []
        problem = await call.problem(
            "add_observations", observations=[{"entityName": "later", "contents": ["x"]}]
        )
        assert problem == "Entity with name later not found"
        made = [entity("later", "x"), entity(long, "y")]
        assert await call("create_entities", entities=made) == {"entities": made}
        entities, relations = await whole(call)
        assert (sorted(one["name"] for one in entities), relations) == (["later", long], early)
        opened = await call("open_nodes", names=[long])
        assert (opened["entities"], opened["relations"]) == ([made[1]], [early[1]])
        await call("delete_entities", entityNames=["never"])
        assert (await whole(call))[1] == []


async def test_entities_are_memories(memory: PostgresMemory, database: Database) -> None:
    await memory.add("A memory beside the graph, on Porto.")
    async with inside(database, GRAPH) as call:
        await call("create_entities", entities=[entity("Ana", "lives in Porto", kind="person")])
        await call("create_relations", relations=[relation("Ana", "Ben")])
        assert [one["name"] for one in (await whole(call))[0]] == ["Ana"]
    record = await memory.get("entity:Ana")
    assert record.content == "Ana\nperson\nlives in Porto"
    assert record.metadata == entity("Ana", "lives in Porto", kind="person")
    assert [(one.relation_type, one.label, one.target_id) for one in record.relations] == [
        ("related", "knows", "entity:Ben")
    ]
    assert (await memory.get("entity:Ben")).status is MemoryStatus.ARCHIVED
    hits = await memory.recall("Who lives in Porto?")
    assert hits[0].record.id == "entity:Ana"


async def test_a_principal_and_a_graph_exclude_each_other(database: Database) -> None:
    from tests.integration.test_cli_export import run

    done = run(database, "mcp", *KNOWLEDGE_GRAPH, "--principal", "ana")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"namespace of its own" in done.stderr
    assert b"Traceback" not in done.stderr
