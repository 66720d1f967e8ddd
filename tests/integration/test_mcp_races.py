"""Several servers on one namespace: nothing is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from postgres_memory import PostgresMemory
from tests.conftest import Database
from tests.integration.mcp_servers import (
    GRAPH,
    KNOWLEDGE_GRAPH,
    Caller,
    inside,
    over_stdio,
)
from tests.integration.test_mcp_knowledge_graph import entity, relation

SERVERS, ROUNDS = 2, 25


async def raced(database: Database, work: Any) -> list[list[Any]]:
    """Run ``work`` with its number in several server processes at once and return what each call gave."""
    async with AsyncExitStack() as stack:
        calls: list[Caller] = [
            await stack.enter_async_context(over_stdio(database, *KNOWLEDGE_GRAPH)) for _ in range(SERVERS)
        ]
        return [
            list(given)
            for given in await asyncio.gather(
                *(
                    asyncio.gather(*(work(call, server, number) for number in range(ROUNDS)))
                    for server, call in enumerate(calls)
                )
            )
        ]


async def test_observations_of_two_processes_on_one_entity(database: Database) -> None:
    async with inside(database, GRAPH) as call:
        await call("create_entities", entities=[entity("hub")])

    async def add(call: Caller, server: int, number: int) -> Any:
        own = {"entityName": "hub", "contents": [f"{server}/{number}", f"both/{number}"]}
        return (await call("add_observations", observations=[own]))["results"][0]["addedObservations"]

    added = [one for of_server in await raced(database, add) for call in of_server for one in call]
    expected = {f"{server}/{number}" for server in (*range(SERVERS), "both") for number in range(ROUNDS)}
    assert len(added) == len(expected)  # each was added by one of them
    assert set(added) == expected
    async with inside(database, GRAPH) as call:
        (hub,) = (await call("open_nodes", names=["hub"]))["entities"]
    assert sorted(hub["observations"]) == sorted(expected)


async def test_the_same_entities_and_relations_from_two_processes(database: Database) -> None:
    async def create(call: Caller, server: int, number: int) -> Any:
        both = [entity(f"e{number}", f"by {server}"), entity(f"e{number + 1}", f"by {server}")]
        if server:
            both.reverse()
        created = await call("create_entities", entities=both)
        edges = [relation(f"e{number}", f"e{number + 1}"), relation(f"e{number + 1}", f"e{number}")]
        await call("create_relations", relations=edges if server else edges[::-1])
        return [one["name"] for one in created["entities"]]

    created = [name for of_server in await raced(database, create) for call in of_server for name in call]
    names = [f"e{number}" for number in range(ROUNDS + 1)]
    assert sorted(created) == sorted(names)  # each was created by one of them, and once
    async with inside(database, GRAPH) as call:
        graph = await call("read_graph")
    assert sorted(one["name"] for one in graph["entities"]) == sorted(names)
    assert all(len(one["observations"]) == 1 for one in graph["entities"])
    edges = {(one["from"], one["to"]) for one in graph["relations"]}
    assert len(edges) == len(graph["relations"]) == 2 * ROUNDS


async def test_deleting_while_others_relate(database: Database) -> None:
    async def work(call: Caller, server: int, number: int) -> Any:
        names = [f"e{number % 3}", f"e{(number + 1) % 3}", f"e{(number + 2) % 3}"]
        if server:
            return await call("delete_entities", entityNames=names[:2])
        await call("create_entities", entities=[entity(name) for name in names])
        edges = [relation(names[0], names[2]), relation(names[0], names[1])]
        return await call("create_relations", relations=edges)

    await raced(database, work)
    async with inside(database, GRAPH) as call:
        graph = await call("read_graph")
    assert len({one["name"] for one in graph["entities"]}) == len(graph["entities"])
    async with PostgresMemory(database.dsn) as memory:
        assert await memory.count(include_inactive=True) <= 3


async def test_the_same_memory_from_two_servers(database: Database) -> None:
    async with (
        inside(database) as one,
        inside(database) as other,
    ):
        stored = await asyncio.gather(
            *(call("store_memory", content=f"fact {number}") for number in range(20) for call in (one, other))
        )
    ids = {one["content"]: set[str]() for one in stored}
    for memory in stored:
        ids[memory["content"]].add(memory["id"])
    assert all(len(of_content) == 1 for of_content in ids.values())
    async with PostgresMemory(database.dsn) as memory:
        assert await memory.count() == 20
