"""Filters in SQL mean what they mean in Python, and nothing of a caller's ever becomes SQL."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Integer, Select, literal_column, select

from postgres_memory import PostgresMemory
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.listing import count_matching
from postgres_memory._sql.predicates import PreparedFilter, prepare_filter
from postgres_memory._sql.schema import Tables
from postgres_memory.errors import InvalidValueError
from postgres_memory.filters import MAX_FILTER_SIZE, And, Filter, Not, Or, check_filter, field
from postgres_memory.postgres import Verbs
from postgres_memory.records import MemoryRecord
from tests.conftest import Database
from tests.filter_meaning import holds
from tests.filter_model import TIMES, as_dict, filters, records

_numbers = itertools.count()

many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fresh(memory: PostgresMemory) -> Verbs:
    """Return the verbs on a namespace that is empty."""
    return Verbs(replace(memory._context, namespace=f"n{next(_numbers)}"))


async def stored(verbs: Verbs, given_records: list[MemoryRecord]) -> list[MemoryRecord]:
    """Store records, every other of them read before, and return them as they are now."""
    added = [await verbs.add(record) for record in given_records]
    async with verbs._context.database.acquired() as connection:
        await connection.executemany(
            "INSERT INTO memory.memory_access (namespace, id, last_accessed, access_count) VALUES ($1, $2, $3, $4)",
            [
                (record.namespace, record.id, TIMES[number % len(TIMES)], number)
                for number, record in enumerate(added)
                if number % 2
            ],
        )
    return [record for record in await verbs.get_many([record.id for record in added]) if record is not None]


@many
@given(st.lists(records, min_size=1, max_size=6), st.lists(filters, min_size=2, max_size=4))
@example([MemoryRecord()], [field("thread_id") != "x", ~(field("thread_id") < "x"), And(), ~And(), Or()])
@example([MemoryRecord(metadata={"a": [1]})], [field("metadata", "a") == 1, field("metadata", "a") == [1]])
@example([MemoryRecord(metadata={"a": ["x", "y"]})], [field("metadata", "a", "0") == "x"])
@example([MemoryRecord(metadata={"a": {"b": 1, "c": 2}})], [field("metadata", "a") == {"b": 1}])
@example([MemoryRecord(metadata={"a": None}), MemoryRecord()], [field("metadata", "a").is_none()])
async def test_sql_agrees_with_python(
    memory: PostgresMemory, given_records: list[MemoryRecord], asked: list[Filter]
) -> None:
    verbs = fresh(memory)
    kept = await stored(verbs, given_records)
    for one in asked:
        expected = {record.id for record in kept if holds(one, record)}
        found = await verbs.find(filter=one, include_inactive=True)
        assert {record.id for record in found} == expected
        assert await verbs.count(one, include_inactive=True) == len(expected)
        by_dict = await verbs.find(filter=as_dict(one), include_inactive=True)
        assert by_dict.items == found.items


@many
@given(st.lists(records, min_size=1, max_size=6), filters)
async def test_what_is_deleted_is_what_holds(
    memory: PostgresMemory, given_records: list[MemoryRecord], asked: Filter
) -> None:
    verbs = fresh(memory)
    stored = [await verbs.add(record) for record in given_records]
    kept = [record.id for record in stored if not holds(asked, record)]
    assert await verbs.delete_many(asked, all=True) == len(stored) - len(kept)
    left = await verbs.find(include_inactive=True, order_by="created_at", limit=100)
    assert {record.id for record in left} == set(kept)


async def test_text_is_compared_in_the_order_of_python(database: Database) -> None:
    """Under any collation of the database; which of them there are is up to the server."""
    texts = ["B", "a", "Z", "b", "é", "z", "\uffff", "\U00010000", "a b", "A"]
    connection = await asyncpg.connect(database.direct_dsn)
    known = "'C', 'en-x-icu', 'und-x-icu', 'en_US.utf8', 'en_US.UTF-8', 'de_DE.utf8'"
    try:
        collations = await connection.fetch(
            f"SELECT DISTINCT quote_ident(collname) FROM pg_collation WHERE collname IN ({known})"
        )
        for (collation,) in collations:
            await connection.execute(
                f"ALTER TABLE memory.memories ALTER thread_id TYPE text COLLATE {collation}"
            )
            async with PostgresMemory(database.dsn) as memory:
                await memory.clear()
                for text in texts:
                    await memory.add("x", id=text, thread_id=text)
                for text in texts:
                    below = sum(other < text for other in texts)
                    assert await memory.count(field("thread_id") < text) == below, collation
                    assert await memory.count({"id": {"$gte": text}}) == len(texts) - below
    finally:
        await connection.close()
    for name in ("id", "owner", "thread_id", "session_id", "supersedes"):
        shape = prepared(field(name) < "a").shape
        assert (
            f'{name} COLLATE "C" < '
            in Catalog("memory", "public").statement(count_matching, "all", shape).sql
        )


HOSTILE = [
    *["'; DROP TABLE memory.memories; --", "' OR true --", "$1", ":a", "%s", '"', "\\", "{", "}", "a'b"],
    *[
        "]",
        "$.a ? (@ > 0)",
        "%",
        "_",
        "\\%",
        "a\\",
        "${a}",
        "\u2028",
        "\U0010ffff",
        "'::jsonb",
        "$tag$",
        "--",
        "{at}",
    ],
]


def about(text: str) -> list[Filter | dict[str, Any]]:
    """Return filters that use ``text`` as a value and as a key, in every way there is."""
    return [
        field("metadata", text, text) == text,
        field("metadata", text, text).is_in([text, 1]),
        field("metadata", text, text).is_in([text, *range(100)]),
        field("metadata", text) == {text: text},
        field("thread_id") == text,
        field("thread_id").is_in([text]),
        field("tags").contains_all([text]),
        field("tags").contains(text),
        field("tags") == [text],
        field("content").contains(f"hit {text}"),
        field("content").icontains(f"HIT {text}"),
        field("content").starts_with(f"hit {text} "),
        field("content").ends_with(f"{text}."),
        field("metadata", text, text).exists(),
        field("metadata", text, text) >= text,
        field("metadata", text, text).starts_with(text),
        field("metadata", text, text).contains(text),
        field("metadata", f"{text}2", 0).ends_with(text),
        field("metadata", f"{text}2").contains_all([text]),
        field("metadata", f"{text}2").contains_any([text, [text]]),
        {"metadata": {"$path": [text, text], "$eq": text}},
        {"metadata": {"$path": [f"{text}2", -1], "$contains": text}},
    ]


@pytest.mark.parametrize("text", HOSTILE)
async def test_keys_and_values_are_never_sql(memory: PostgresMemory, text: str) -> None:
    hit = f"hit {text} {text}."
    await memory.add(hit, metadata={text: {text: text}, f"{text}2": [text]}, thread_id=text, tags=[text])
    await memory.add("hit a b.", metadata={"a": {"b": "c"}}, thread_id="a", tags=["b"])
    for one, harmless in zip(about(text), about("zz"), strict=True):
        assert [record.content for record in await memory.find(filter=one)] == [hit], one
        assert prepared(one).shape == prepared(harmless).shape  # which is all that a statement is made of


def prepared(one: Filter | dict[str, Any]) -> PreparedFilter:
    return prepare_filter(check_filter(one))


def test_filters_that_differ_in_values_share_a_statement() -> None:
    catalog = Catalog("memory", "public")
    pairs: list[tuple[Filter, Filter]] = [
        (field("importance") >= 0.5, field("importance") >= 1),
        (field("id").is_in(["a"]), field("id").is_in(list("abcdefg"))),
        (field("metadata", "a") == 1, field("metadata", "b", "c") == "x"),
        (field("metadata", "a").is_in([1]), field("metadata", "b").is_in(list(range(30)))),
        (field("metadata", "a").is_in(list(range(33))), field("metadata", "b").is_in(list(range(9_000)))),
        (field("metadata", "a").contains_any([1]), field("metadata", "b").contains_any(["a", None, 2])),
        (field("metadata", "a", 0) > 1, field("metadata", "b", 7) > 1e23),
        (field("metadata", "a").contains("x"), field("metadata", "\\").contains("%")),
        (field("content").icontains("a_b"), field("content").icontains("%")),
        (field("tags").contains("x"), field("tags").contains_any(list("abc"))),
        (field("tags") == [], field("tags") == ["a", "b"]),
        (field("access_count") > 1, field("access_count") > 7),
        (~(field("owner") == "a") & And(), Not(field("owner") == "b") & And()),
    ]
    for one, other in pairs:
        statements = [catalog.statement(count_matching, "all", prepared(each).shape) for each in (one, other)]
        assert statements[0] is statements[1]
        assert prepared(one).parameters != prepared(other).parameters


def test_filters_that_are_built_otherwise_do_not() -> None:
    shapes = [
        prepared(one).shape
        for one in (
            field("importance") > 0.5,
            field("importance") >= 0.5,
            field("confidence") > 0.5,
            ~(field("importance") > 0.5),
            field("thread_id").is_none(),
            field("thread_id") == "a",
            field("thread_id").is_in(["a"]),
            field("thread_id").is_in(["a", None]),
            field("metadata", "a") == 1,
            field("metadata", "a") == [1],
            field("metadata", "a").is_none(),
            field("metadata", "a") > 1,
            field("metadata", "a") > "1",
            field("metadata", "a") > TIMES[0],
            field("metadata", "a", "b") > 1,
            field("metadata", "a", 0) > 1,
            field("metadata", "a", -1) > 1,
            field("metadata", "a").exists(),
            field("metadata", "a").is_in([1]),
            field("metadata", "a").is_in([1, None]),
            field("metadata", "a").is_in([1, TIMES[0]]),
            field("metadata", "a").is_in([[1]]),
            field("metadata", "a").is_in(list(range(33))),
            field("content").contains("a"),
            field("content").icontains("a"),
            And(),
            Or(),
        )
    ]
    assert len(set(shapes)) == len(shapes)


def numbered(_: Tables, number: int) -> Select[tuple[int]]:
    return select(literal_column(str(number), Integer))


def test_the_statements_kept_are_bounded() -> None:
    catalog = Catalog("memory", "public")
    kept, forgotten = catalog.statement(numbered, 0), catalog.statement(numbered, 1)
    for number in range(2, 1000):
        catalog.statement(numbered, number)
        assert catalog.statement(numbered, 0) is kept  # used again and again
    assert catalog.statement.cache_info().currsize == 512
    assert catalog.statement(numbered, 1) is not forgotten
    assert catalog.statement(numbered, 1) == forgotten


async def test_the_largest_filter_runs(memory: PostgresMemory) -> None:
    await memory.add("x", importance=0.5, metadata={"a": 1})
    wide: Filter = Or([field("importance") == n / 2000 for n in range(MAX_FILTER_SIZE - 1)])
    assert await memory.count(wide) == 0
    with pytest.raises(InvalidValueError, match="at most"):
        await memory.count(wide | (field("version") == 1))
    deep: Filter = field("version") == 1
    for level in range(30):
        deep = And([deep, field("version") == 1]) if level % 2 else Or([deep, field("version") == 2])
    assert await memory.count(deep) == 1
    many_ids = [f"id{n}" for n in range(100_000)]
    assert await memory.count(field("id").is_in(many_ids)) == 0
    keys = ["k"] * 127
    assert await memory.count(field("metadata", *keys).is_in([1])) == 0
