"""Hot statements: by their indexes, nothing sorted on disk, and contents read last."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory, Ranking
from postgres_memory._sql.compile import Statement
from tests.conftest import Database

from .conftest import Ran

#: Memories of a namespace, and how many namespaces there are; each memory relates to three others.
MEMORIES, NAMESPACES = 1_500, 6
RELATIONS = """
INSERT INTO memory.memory_relations (namespace, source_id, relation_type, target_id)
SELECT namespace, id, 'related', (id::int * 7 + step) % $1::int FROM memory.memories, generate_series(1, 3) AS step
WHERE id::int <> (id::int * 7 + step) % $1::int
"""
#: Values that a statement that writes takes only once.
ANEW = {"id": "another", "token": None}

Plan = dict[str, Any]


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(sum(map(ord, text)) % 97), float(len(text))] for text in texts]


@dataclass(frozen=True, slots=True)
class Hot:
    """A call, its statement, the indexes it goes by, and of how many memories it may read contents.

    `recall` reads those of what it looks at closely, to tell questions by their last character: as many as its limit
    asks for, whatever the namespace holds.
    """

    call: Callable[[PostgresMemory], Awaitable[object]]
    statement: str
    indexes: set[str]
    contents: int


HOT = {
    "search": Hot(
        lambda memory: memory.search("green tea 77"),
        "search_short_query",
        {"memory_hash_embeddings_pkey", "memory_hash_embeddings_long_idx", "memories_seq_key"},
        5,
    ),
    "recall": Hot(
        lambda memory: memory.recall("green tea 77", limit=3),
        "recall_lexical",
        {"memories_terms_idx", "memories_place_idx", "memories_seq_key"},
        700,
    ),
    "recall by vectors": Hot(
        lambda memory: memory.recall("green tea 77", limit=3, ranking=Ranking(vector=1, lexical=0)),
        "recall_lexical",
        {"memory_embeddings_pkey", "memories_seq_key"},
        700,
    ),
    "recall of the nearest": Hot(
        lambda memory: memory.recall("green tea 77", limit=3, ranking="vector"),
        "recall_nearest",
        {"memory_embeddings_pkey", "memories_seq_key"},
        3,
    ),
    "get": Hot(lambda memory: memory.get("77"), "get_records", {"memories_pkey"}, 1),
    "find": Hot(
        lambda memory: memory.find(limit=20),
        "find_memories",
        {"memories_created_at_idx", "memories_seq_key"},
        21,
    ),
    "relations": Hot(
        lambda memory: memory.relations("77"), "get_relations", {"memory_relations_source_idx"}, 0
    ),
    "related": Hot(
        lambda memory: memory.related("77", max_depth=3, limit=10),
        "get_related",
        {"memory_relations_source_idx", "memories_pkey"},
        12,
    ),
    "relate": Hot(
        lambda memory: memory.relate("77", "78", "supports"), "store_relation", {"memories_pkey"}, 0
    ),
    "store": Hot(lambda memory: memory.store("green tea"), "store_memory", set(), 0),
}


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(database.direct_dsn)
    yield opened
    await opened.close()


async def fill(database: Database, connection: asyncpg.Connection[asyncpg.Record]) -> None:
    for number in range(NAMESPACES):
        async with PostgresMemory(
            database.dsn, namespace=f"n{number}", embedder=embed, space="sums"
        ) as memory:
            await memory.add_many(
                {
                    "content": f"{'green' if n % 3 else 'black'} tea {n}, and a word of its own w{n}",
                    "id": str(n),
                    "thread_id": f"t{n // 20}",
                }
                for n in range(MEMORIES)
            )
    await connection.execute(RELATIONS, MEMORIES)
    await connection.execute("VACUUM ANALYZE")


def literal(value: object) -> str:
    """Return a parameter as EXECUTE takes it."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        value = "{" + ",".join("NULL" if one is None else json.dumps(one) for one in value) + "}"
    return "'" + str(value).replace("'", "''") + "'"


async def plan_of(
    connection: asyncpg.Connection[asyncpg.Record], statement: Statement, arguments: list[Any], mode: str
) -> Plan:
    """Run the statement and take it back; return how it ran."""
    values = dict(zip(statement.parameters, arguments, strict=True))
    if statement.writes:
        values |= {name: value for name, value in ANEW.items() if name in values}
    given = ", ".join(literal(values[name]) for name in statement.parameters)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}; PREPARE hot AS {statement.sql}")
        rows = await connection.fetchval(
            f"EXPLAIN (ANALYZE, VERBOSE, BUFFERS, FORMAT JSON) EXECUTE hot ({given})"
        )
        await connection.execute("DEALLOCATE hot")
    finally:
        await transaction.rollback()
    plan: Plan = json.loads(rows)[0]["Plan"]
    return plan


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def read_to_the_end(plan: Plan) -> list[str]:
    """Return the tables of all namespaces that are read without an index; those that are empty do not count."""
    many = ("memories", "memory_hash_embeddings", "memory_relations", "memory_embeddings")
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if "Seq Scan" in node["Node Type"] and node["Relation Name"] in many and node["Actual Loops"]
    ]


def on_disk(plan: Plan) -> list[str]:
    """Return what was sorted or hashed on disk."""
    return [
        node["Node Type"]
        for node in nodes(plan)
        if node.get("Sort Space Type") == "Disk" or node.get("Hash Batches", 1) > 1
    ]


def problems_of(plan: Plan, hot: Hot) -> dict[str, object]:
    """Return what a plan does that it must not."""
    used = {node["Index Name"] for node in nodes(plan) if node.get("Index Name")}
    found = {
        "missing": sorted(hot.indexes - used),
        "read to the end": read_to_the_end(plan),
        "on disk": on_disk(plan),
    }
    return {name: value for name, value in found.items() if value}


async def test_hot_statements(
    database: Database, connection: asyncpg.Connection[asyncpg.Record], ran: Ran
) -> None:
    await fill(database, connection)
    problems = {}
    async with PostgresMemory(
        database.dsn, namespace="n3", embedder=embed, space="sums", access_tracking="off"
    ) as memory:
        for verb, hot in HOT.items():
            ran.clear()
            await hot.call(memory)
            statement, arguments = next(one for one in ran if one[0].name == hot.statement)
            for mode in ("force_generic_plan", "force_custom_plan"):
                plan = await plan_of(connection, statement, arguments, mode)
                if found := problems_of(plan, hot):
                    problems[f"{verb}, {mode}"] = found
    assert not problems, json.dumps(problems, indent=1)


async def toast_read(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return how many blocks of contents that lie apart from their rows were read so far."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    read: int = await connection.fetchval(
        "SELECT toast_blks_read + toast_blks_hit FROM pg_statio_user_tables WHERE relname = 'memories'"
    )
    return read


async def test_contents_are_read_last(
    database: Database, connection: asyncpg.Connection[asyncpg.Record], ran: Ran
) -> None:
    """Long contents lie apart from their rows; the blocks that are read there tell of how many they were."""
    await connection.execute("ALTER TABLE memory.memories ALTER content SET STORAGE EXTERNAL")
    read = {}
    async with PostgresMemory(
        database.dsn, namespace="n3", embedder=embed, space="sums", access_tracking="off"
    ) as memory:
        await memory.add_many(
            {"content": f"green tea {n} {'and so on ' * 250}", "id": str(n), "thread_id": f"t{n // 20}"}
            for n in range(2 * MEMORIES)
        )
        await connection.execute(RELATIONS, 2 * MEMORIES)
        await connection.execute("VACUUM ANALYZE")
        for verb, hot in HOT.items():
            ran.clear()
            await hot.call(memory)
            statement, arguments = next(one for one in ran if one[0].name == hot.statement)
            if not statement.writes:
                before = await toast_read(connection)
                await connection.fetch(statement.sql, *arguments)
                read[verb] = await toast_read(connection) - before
    # One block for each content, or two where one ends.
    assert {verb: blocks for verb, blocks in read.items() if blocks > 1.5 * HOT[verb].contents} == {}
    assert read["get"] >= 1  # they do lie apart


async def test_what_is_on_disk_would_be_found(
    database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    """The looks at a plan see what they are for."""
    await fill(database, connection)
    sql = "SELECT content FROM memory.memories ORDER BY content || $1::text"
    statement = Statement("all", sql, ("more",), writes=False)
    await connection.execute("SET work_mem = '64kB'")
    plan = await plan_of(connection, statement, ["x"], "force_custom_plan")
    assert read_to_the_end(plan) == ["memories"]
    assert on_disk(plan) == ["Sort"]
