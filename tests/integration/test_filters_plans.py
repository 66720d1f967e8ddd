"""What a filter's predicate can be asked of, and what an index on metadata can answer of it."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from sqlalchemy import FromClause, Select, func, select

from postgres_memory import PostgresMemory
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.listing import count_matching
from postgres_memory._sql.parameters import text_parameter
from postgres_memory._sql.predicates import Shape, predicate, prepare_filter
from postgres_memory._sql.schema import Tables
from postgres_memory.filters import Filter, field
from tests.conftest import Database
from tests.filter_model import TIMES

EVERY_KIND: list[Filter] = [
    field("content").contains("x"),
    field("thread_id") != "a",
    field("access_count") >= 1,
    field("last_accessed").exists(),
    ~(field("last_accessed") < TIMES[0]),
    field("tags").contains_any(["a", "b"]),
    field("metadata", "a") == 1,
    field("metadata", "a", 0).is_in([1, None, TIMES[0]]),
    field("metadata", "a").contains_any(["x", [1]]),
    field("metadata", "a").contains_all([[1]]),
    field("metadata", "a").contains("x"),
    field("metadata", "a") > 5,
]


def count_in_alias(tables: Tables, shape: Shape) -> Select[Any]:
    return _count(tables.memories.alias("m"), shape)


def count_in_subquery(tables: Tables, shape: Shape) -> Select[Any]:
    return _count(select(tables.memories).subquery("chosen"), shape)


def count_in_cte(tables: Tables, shape: Shape) -> Select[Any]:
    return _count(select(tables.memories).cte("chosen"), shape)


def count_twice(tables: Tables, shape: Shape) -> Select[Any]:
    """Ask the same of both sides of a join, as pairs of memories are asked."""
    one, other = tables.memories.alias("one"), tables.memories.alias("other")
    both = one.join(other, (one.c.namespace == other.c.namespace) & (one.c.id == other.c.id))
    return (
        select(func.count())
        .select_from(both)
        .where(one.c.namespace == text_parameter("namespace"), predicate(one, shape), predicate(other, shape))
    )


def _count(memories: FromClause, shape: Shape) -> Select[Any]:
    return (
        select(func.count())
        .select_from(memories)
        .where(memories.c.namespace == text_parameter("namespace"), predicate(memories, shape))
    )


@pytest.mark.parametrize("builder", [count_in_alias, count_in_subquery, count_in_cte, count_twice])
async def test_a_predicate_is_asked_of_whatever_holds_memories(memory: PostgresMemory, builder: Any) -> None:
    for number, value in enumerate([1, [1], [[1]], "x", ["x"], 7, None]):
        await memory.add(f"x{number}", id=str(number), tags=["a"], metadata={"a": value})
    await memory.add("y", id="y", thread_id="a")
    async with memory._context.database.acquired() as connection:
        await connection.execute("INSERT INTO memory.memory_access VALUES ('default', '1', now(), 1)")
    for one in EVERY_KIND:
        for asked in (one, ~one):
            prepared = prepare_filter(asked)
            parameters = {**prepared.parameters, "namespace": "default"}
            ((number,),) = await memory._context.fetch(builder, parameters, prepared.shape)
            assert number == await memory.count(asked), asked
            assert 0 < number < 8


INDEXED: list[Filter] = [
    field("metadata", "user") == "u7",
    field("metadata", "project", "name") == "p7",
    field("metadata", "project") == {"name": "p7"},
    field("metadata", "labels", 0) == "l7",
    field("metadata", "user").is_in(["u7", "u8"]),
    field("metadata", "labels").contains_all(["l7"]),
    field("metadata", "labels").contains_any(["l7", "l8"]),
]


async def test_an_index_on_metadata_answers_equality(database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute(
            "CREATE INDEX by_metadata ON memory.memories USING gin (metadata jsonb_path_ops)"
        )
        async with PostgresMemory(database.dsn) as memory:
            await memory.add_many(
                {
                    "content": "x",
                    "metadata": {"user": f"u{n}", "project": {"name": f"p{n}"}, "labels": [f"l{n}", "all"]},
                }
                for n in range(3000)
            )
        await connection.execute("VACUUM ANALYZE memory.memories")
        await connection.execute("SET enable_seqscan = off")  # few memories are as quickly looked through
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"SET plan_cache_mode = {mode}")
            for asked in INDEXED:
                prepared = prepare_filter(asked)
                statement = Catalog("memory", "public").statement(count_matching, "all", prepared.shape)
                parameters: dict[str, Any] = {**prepared.parameters, "namespace": "default"}
                plan = await connection.fetch(
                    f"EXPLAIN {statement.sql}", *(parameters[name] for name in statement.parameters)
                )
                assert "by_metadata" in str(plan), (mode, asked, plan)
    finally:
        await connection.close()


async def test_a_deep_path_makes_a_statement_in_proportion(memory: PostgresMemory) -> None:
    value: Any = 7
    for level in range(127):
        value = [value] if level % 8 == 1 else {"k": value}
    await memory.add("x", metadata=value)
    deep = field("metadata", *(0 if level % 8 == 1 else "k" for level in reversed(range(127))))
    for asked in (deep == 7, deep > 6, deep.exists(), deep.is_in(list(range(100))), ~(deep < TIMES[0])):
        assert await memory.count(asked) == 1
        statement = Catalog("memory", "public").statement(count_matching, "all", prepare_filter(asked).shape)
        assert len(statement.sql) < 60_000
    assert await memory.count(deep > TIMES[0]) == 0
