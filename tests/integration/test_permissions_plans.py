"""What the server plans for a principal: indexes, not whole tables, although policies are in the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from postgres_memory import MemoryPermissions, PostgresMemory, PrincipalMemory
from tests.conftest import Database

from .conftest import Ran
from .test_hot_plans import Plan, nodes, plan_of
from .test_principals_sql import as_principal

MANY = 4_000


async def fill(memory: PostgresMemory) -> None:
    """Store memories, one in ten of which alice may read, each with a word that few have."""
    everyone = [MemoryPermissions("alice"), *(MemoryPermissions(f"other{number}") for number in range(9))]
    await memory.add_many(
        {
            "content": f"the kettle sings word{number // 10}",
            "id": str(number),
            "permissions": everyone[number % 10],
        }
        for number in range(MANY)
    )


CALLS: dict[str, tuple[Callable[[PrincipalMemory], Awaitable[Any]], str, str]] = {
    "get": (lambda seen: seen.get("10"), "get_records", "memories_pkey"),
    "find": (lambda seen: seen.find(limit=10), "find_memories", "memories_created_at_idx"),
    "update": (lambda seen: seen.update("10", tags=["x"]), "update_memory", "memories_pkey"),
    "delete": (lambda seen: seen.delete("10"), "delete_memory", "memories_pkey"),
    "relations": (lambda seen: seen.relations("10"), "get_relations", "memories_pkey"),
    "related": (lambda seen: seen.related("10"), "get_related", "memory_relations_source_idx"),
    "recall": (lambda seen: seen.recall("word7"), "recall_lexical", "memories_terms_idx"),
}


@pytest.mark.parametrize("verb", CALLS)
async def test_an_index_serves(database: Database, memory: PostgresMemory, ran: Ran, verb: str) -> None:
    await fill(memory)
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("VACUUM ANALYZE memory.memories, memory.memory_hash_embeddings")
    call, name, index = CALLS[verb]
    ran.clear()
    await call(memory.as_principal("alice"))
    statement, arguments = next(one for one in ran if one[0].name == name)
    async with connection.transaction():
        if "of a principal" in statement.sql:
            await as_principal(connection, "alice")
        rows = await connection.fetch(f"EXPLAIN (COSTS OFF) {statement.sql}", *arguments)
    await connection.close()
    plan = "\n".join(row[0] for row in rows)
    assert index in plan, plan
    if verb != "recall":  # which counts the memories that there are
        assert "Seq Scan on memories" not in plan, plan


async def test_words_are_looked_up_by_the_backend_and_read_by_the_principal(
    memory: PostgresMemory, ran: Ran
) -> None:
    await fill(memory)
    ran.clear()
    hits = await memory.as_principal("alice").recall("word7", limit=5)
    assert hits[0].record.content == "the kettle sings word7"
    assert len(hits) == 5
    names = {statement.name: "of a principal" in statement.sql for statement, _ in ran}
    assert names["recall_lexical"] is False
    assert names["get_records"] is True


@pytest.mark.parametrize("verb", ["store", "add"])
async def test_the_plan_of_a_new_memory_is_kept(
    database: Database, memory: PostgresMemory, ran: Ran, verb: str
) -> None:
    """Under policies planning takes longer than inserting: it is done anew for five calls, as PostgreSQL does it."""
    await fill(memory)
    seen = memory.as_principal("alice")
    ran.clear()
    await (seen.store if verb == "store" else seen.add)("the kettle sings", metadata={"a": 1})
    statement, arguments = next(one for one in ran if one[0].name == "add_memory")
    place = statement.parameters.index("id")
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("ANALYZE memory.memories")
    async with connection.transaction():
        await as_principal(connection, "alice")
        prepared = await connection.prepare(statement.sql)
        for number in range(7):
            given = list(arguments)
            given[place] = f"new {number}"
            await prepared.fetch(*given)
        query = "SELECT generic_plans FROM pg_prepared_statements WHERE name = $1"
        kept = await connection.fetchval(query, prepared.get_name())
    await connection.close()
    assert kept == 2, kept


#: Of ten memories alice owns one, everyone may read one, and one names her. Two others name somebody.
SOME = [
    MemoryPermissions("alice"),
    MemoryPermissions(readers=("*",)),
    MemoryPermissions("bob", writers=("alice",)),
    MemoryPermissions("bob", readers=("carol",)),
    MemoryPermissions("carol", writers=("bob", "dave")),
    *[MemoryPermissions("bob")] * 2,
    *[MemoryPermissions()] * 3,
]
READABLE, NAMING = MANY * 3 // 10, MANY * 3 // 10


def rows_read(plan: Plan, table: str) -> float:
    """Return how many rows of a table a statement looked at."""
    each: Iterator[float] = (
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(plan)
        if node.get("Relation Name") == table
    )
    return sum(each)


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("analyzed", [True, False])
async def test_search_reads_what_may_be_read(
    database: Database, memory: PostgresMemory, ran: Ran, mode: str, analyzed: bool
) -> None:
    """And in an index only, or where lists name somebody: neither the memories of others nor their embeddings."""
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("ALTER TABLE memory.memories SET (autovacuum_enabled = false)")
    await connection.execute("ALTER TABLE memory.memory_hash_embeddings SET (autovacuum_enabled = false)")
    for namespace in (memory.namespace, "one", "two", "three"):
        async with PostgresMemory(database.dsn, namespace=namespace) as filled:
            await filled.add_many(
                {"content": f"the kettle sings {number}", "permissions": SOME[number % 10]}
                for number in range(MANY)
            )
    if analyzed:
        await connection.execute("VACUUM ANALYZE memory.memories, memory.memory_hash_embeddings")
    ran.clear()
    assert len(await memory.as_principal("alice").search("the kettle sings 7", limit=5)) == 5
    statement, arguments = next(one for one in ran if one[0].name == "search_short_query")
    plan = await plan_of(connection, statement, arguments, mode)
    await connection.close()
    used = {node["Index Name"] for node in nodes(plan) if node.get("Index Name")}
    assert {"memories_owner_idx", "memories_everyone_idx", "memories_shared_idx"} <= used
    looked_up = 2 * 16  # those best at first, by one statement for any limit up to this
    assert rows_read(plan, "memory_hash_embeddings") <= READABLE + looked_up
    assert rows_read(plan, "memories") <= MANY * 2 // 10 + NAMING + looked_up
