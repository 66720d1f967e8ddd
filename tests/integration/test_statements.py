"""What a call costs the server: round trips and plans."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.records import get_records
from postgres_memory._sql.searching import search_long_query, search_short_query

from ..conftest import Database
from .exact_ranking import insert
from .proxy import proxied


async def test_store_and_search_take_one_round_trip(database: Database) -> None:
    async with proxied(database) as proxy, PostgresMemory(proxy.dsn, pool_max_size=1) as memory:
        await memory.store("tea", {"milk": False})
        await memory.search("tea")
        await memory.search("tea", 0)
        await memory.clear()
        proxy.sent.clear()
        for number in (*range(1, 17), 1, 1, 1, 1):
            proxy.round_trips = 0
            await memory.store(f"tea {number}", {"milk": False})
            await memory.search("tea", number)
            assert proxy.round_trips == 2
        proxy.round_trips = 0
        assert await memory.search("tea", 0) == []
        assert proxy.round_trips == 0
        await memory.clear()
        assert proxy.round_trips == 1
        # Bind, Execute, Sync: no statement is prepared again, and none is sent as text (Q), as a reset would be.
        assert Counter(proxy.sent) == {"B": 41, "E": 41, "S": 41}


async def test_a_transaction_adds_its_two_ends(database: Database) -> None:
    async with proxied(database) as proxy, PostgresMemory(proxy.dsn, pool_max_size=1) as memory:
        for _ in range(2):
            proxy.round_trips = 0
            async with memory.transaction() as transaction:
                await transaction.store("tea")
                await transaction.search("tea")
        assert proxy.round_trips == 4


ROWS = 4000


@pytest.fixture
async def filled(database: Database) -> AsyncIterator[PostgresMemory]:
    """Two namespaces of some thousand memories, and statistics of them."""
    async with PostgresMemory(database.dsn, pool_max_size=1) as memory:
        for _ in range(2):
            await insert(memory, [f"tea {number}" for number in range(ROWS)])
        async with memory._context.database.acquired() as connection:
            await connection.execute("ANALYZE")
        yield memory


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(below for child in plan.get("Plans", ()) for below in nodes(child))]


async def test_results_stay_right_when_the_plan_becomes_generic(filled: PostgresMemory) -> None:
    memory = filled
    await memory.store("a cup of tea")
    for _ in range(20):
        assert [entry.content for entry in await memory.search("a cup of tea", 3)] == ["a cup of tea"]
    await memory.store("another cup of tea")
    assert len(await memory.search("a cup of tea", 3)) == 2


async def test_no_plan_reads_all_memories(filled: PostgresMemory, database: Database) -> None:
    """Generic plans neither: they cannot know the limit, and are what a connection uses after five calls."""
    connection = await asyncpg.connect(database.direct_dsn)
    catalog = Catalog("memory", "public")
    try:
        namespace = await connection.fetchval("SELECT min(namespace) FROM memory.memories")
        counts = "{" + ",".join(["1"] * 32) + "}"
        values = {"namespace": namespace, "counts": counts, "query_norm": "32", "limit": "5"}
        for mode, (builder, *shape) in itertools.product(
            ("force_generic_plan", "force_custom_plan"), ((search_short_query, 16), (search_long_query,))
        ):
            statement = catalog.statement(builder, *shape)
            arguments = ", ".join(f"'{values[name]}'" for name in statement.parameters)
            await connection.execute(f"SET plan_cache_mode = {mode}; PREPARE ranking AS {statement.sql}")
            plan = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE ranking ({arguments})")
            await connection.execute("DEALLOCATE ranking")
            reads = [
                node for node in nodes(json.loads(plan)[0]["Plan"]) if node.get("Relation Name") == "memories"
            ]
            assert reads
            for node in reads:
                assert node["Node Type"] == "Index Scan", (mode, builder)
                assert node["Actual Rows"] * node["Actual Loops"] <= 5, (mode, builder)
    finally:
        await connection.close()


async def test_records_are_read_without_the_relations_of_a_hub(
    memory: PostgresMemory, database: Database
) -> None:
    """Where nearly all relations start at one memory, the statistics say that those of any memory are many."""
    await memory.add_many([{"id": f"leaf {number}", "content": "leaf"} for number in range(20_000)])
    await memory.add("hub", id="hub")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute(
            "INSERT INTO memory.memory_relations (namespace, source_id, relation_type, label, target_id) "
            "SELECT namespace, 'hub', 'related', '', id FROM memory.memories WHERE id <> 'hub'"
        )
        await connection.execute("ANALYZE memory.memory_relations")
        catalog = await memory._context.database.opened()
        statement = catalog.statement(get_records)
        parameters = {"namespace": memory.namespace, "ids": ["leaf 1", "leaf 2"]}
        arguments = [parameters[name] for name in statement.parameters]
        plan = await connection.fetch(f"EXPLAIN {statement.sql}", *arguments)
        text = "\n".join(row[0] for row in plan)
        assert "Seq Scan on memory_relations" not in text, text
        assert "memory_relations_pkey" in text, text
    finally:
        await connection.close()
    assert len((await memory.get("hub")).relations) == 20_000
