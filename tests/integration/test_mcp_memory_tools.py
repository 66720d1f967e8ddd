"""The eight tools on memories, called by the official client over both transports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from postgres_memory import MemoryPermissions, PostgresMemory
from postgres_memory.mcp.settings import Settings
from tests.conftest import Database
from tests.integration.mcp_servers import Caller, http_server, inside, over_http, over_stdio

TOOLS = {
    "store_memory": (False, False, True),
    "search_memories": (True, False, True),
    "get_memory": (True, False, True),
    "update_memory": (False, True, False),
    "forget_memory": (False, True, True),
    "relate_memories": (False, False, True),
    "related_memories": (True, False, True),
    "list_memories": (True, False, True),
}


@asynccontextmanager
async def http(database: Database, mode: str) -> AsyncIterator[Caller]:
    async with http_server(database) as url, over_http(url, mode=mode) as call:
        yield call


def stdio(database: Database, mode: str) -> AbstractAsyncContextManager[Caller]:
    return over_stdio(database, mode=mode)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", [stdio, http])
async def test_every_tool_over_every_transport(
    database: Database, transport: Callable[[Database, str], AbstractAsyncContextManager[Caller]], mode: str
) -> None:
    async with transport(database, mode) as call:
        listed = (await call.client.list_tools()).tools
        hints = {
            tool.name: (
                tool.annotations.read_only_hint,
                tool.annotations.destructive_hint,
                tool.annotations.idempotent_hint,
            )
            for tool in listed
            if tool.annotations
        }
        assert hints == TOOLS
        assert all(tool.output_schema for tool in listed)

        mira = await call("store_memory", content="Mira moved to Porto.", tags=["home"], metadata={"n": 1})
        again = await call("store_memory", content="Mira moved to Porto.")
        assert (again["id"], again["tags"]) == (mira["id"], ["home"])
        boxes = await call("store_memory", content="The boxes came by train.", importance=0.9)

        found = await call("search_memories", query="Where did Mira move?", limit=1)
        assert [one["id"] for one in found["memories"]] == [mira["id"]]
        assert found["memories"][0]["score"] > 0.4
        assert (await call("search_memories", query="zebra crossings"))["memories"] == []

        changed = await call("update_memory", id=mira["id"], metadata={"m": 2}, expected_version=1)
        assert (changed["metadata"], changed["version"]) == ({"n": 1, "m": 2}, 2)
        replaced = await call("update_memory", id=mira["id"], metadata={"x": 3}, replace_metadata=True)
        assert replaced["metadata"] == {"x": 3}

        related = await call(
            "relate_memories",
            source_id=boxes["id"],
            target_id=mira["id"],
            relation_type="supports",
            label="so",
        )
        assert related["label"] == "so"
        reached = await call("related_memories", id=mira["id"])
        assert [(one["id"], one["depth"]) for one in reached["memories"]] == [(boxes["id"], 1)]
        assert reached["memories"][0]["path"] == [related]
        whole = await call("get_memory", id=mira["id"])
        assert whole["relations"] == [related]

        first = await call("list_memories", limit=1)
        second = await call("list_memories", limit=1, cursor=first["cursor"])
        assert [first["memories"][0]["id"], second["memories"][0]["id"]] == [boxes["id"], mira["id"]]
        assert second["cursor"] is None
        important = await call("list_memories", filter={"importance": {"$gte": 0.8}})
        assert [one["id"] for one in important["memories"]] == [boxes["id"]]

        assert await call("forget_memory", id=mira["id"]) == {"forgotten": True}
        assert await call("forget_memory", id=mira["id"]) == {"forgotten": False}
        assert mira["id"] in await call.problem("get_memory", id=mira["id"])


async def test_a_client_cannot_choose_a_namespace_or_a_principal(database: Database) -> None:
    async with PostgresMemory(database.dsn, namespace="secret") as other:
        kept = await other.add("The other namespace's secret.")
    async with inside(database, namespace="mine") as call:
        for extra in ({"namespace": "secret"}, {"principal": "system"}, {"owner": "system"}):
            for tool in TOOLS:
                arguments = {"id": kept.id} if tool == "get_memory" else {}
                assert next(iter(extra)) in await call.problem(tool, **arguments, **extra)
        assert (await call("search_memories", query="secret"))["memories"] == []
        assert (await call("list_memories"))["memories"] == []
        assert "no memory" in await call.problem("get_memory", id=kept.id)
        assert await call("forget_memory", id=kept.id) == {"forgotten": False}
        mine = await call("store_memory", content="mine")
        problem = await call.problem(
            "relate_memories", source_id=mine["id"], target_id=kept.id, relation_type="related"
        )
        assert "no memory" in problem
        assert "there is no field" in await call.problem("list_memories", filter={"namespace": "secret"})
    async with PostgresMemory(database.dsn, namespace="secret") as other:
        assert (await other.get(kept.id)).content == kept.content


async def test_a_principal_sees_its_own_and_what_it_was_given(database: Database) -> None:
    async with PostgresMemory(database.dsn) as backend:
        hidden = await backend.add("The backend's own note on salaries.")
        shared = await backend.add(
            "Everybody may read about salaries.", permissions=MemoryPermissions(readers=("*",))
        )
    async with (
        inside(database, Settings(principal="ana")) as ana,
        over_stdio(database, "--principal", "ben") as ben,
    ):
        own = await ana("store_memory", content="Ana's salaries.")
        assert own["owner"] == "ana"
        seen = await ana("search_memories", query="salaries", limit=50)
        assert {one["id"] for one in seen["memories"]} == {own["id"], shared.id}
        seen = await ben("list_memories")
        assert {one["id"] for one in seen["memories"]} == {shared.id}
        for call in (ana, ben):
            assert "no memory" in await call.problem("get_memory", id=hidden.id)
            assert await call("forget_memory", id=hidden.id) == {"forgotten": False}
            assert "may read it" in await call.problem("update_memory", id=shared.id, content="mine now")
        assert "no memory" in await ben.problem("update_memory", id=own["id"], content="mine now")
