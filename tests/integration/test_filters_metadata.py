"""Every operator on every kind of value in metadata, against every other: nothing matches by chance, nothing raises."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.filters import Field, Filter, field
from postgres_memory.postgres import Verbs
from postgres_memory.records import MemoryRecord
from tests.conftest import Database
from tests.filter_meaning import holds
from tests.filter_model import SCALARS, TIMES

LISTS: list[Any] = [
    *[
        [],
        [1],
        [1.0, "1"],
        ["a", "b"],
        [["a"]],
        [None],
        [[]],
        [{}],
        [{"a": 1}],
        [True],
        [[1, 2], 3],
        [3, [2, 1]],
    ],
    *[{}, {"a": 1}, {"a": None}, {"0": 1}, {"a": {"a": [1]}}, [{"a": [1, 2]}]],
]
VALUES = [*SCALARS, *LISTS]


def is_ordered(value: Any) -> bool:
    return isinstance(value, str | int | float | datetime) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_json(value: Any) -> bool:
    return not isinstance(value, datetime)


ASKED: dict[str, tuple[Callable[[Field, Any], Filter], Callable[[Any], bool]]] = {
    "eq": (operator.eq, lambda _: True),
    "ne": (operator.ne, lambda _: True),
    "in": (lambda one, value: one.is_in([value]), lambda _: True),
    "in few": (lambda one, value: one.is_in([value, "no", None, [9]]), lambda _: True),
    "not in many": (lambda one, value: one.not_in([value, *range(-100, -50)]), lambda _: True),
    "lt": (operator.lt, is_ordered),
    "le": (operator.le, is_ordered),
    "gt": (operator.gt, is_ordered),
    "ge": (operator.ge, is_ordered),
    "not gt": (lambda one, value: ~(one > value), is_ordered),
    "starts": (lambda one, value: one.starts_with(value), is_text),
    "ends": (lambda one, value: one.ends_with(value), is_text),
    "icontains": (lambda one, value: one.icontains(value), is_text),
    "contains": (lambda one, value: one.contains(value), is_json),
    "any": (lambda one, value: one.contains_any([value, [8]]), is_json),
    "any of many": (
        lambda one, value: one.contains_any([value, *range(-100, -50)]),
        is_json,
    ),
    "all": (lambda one, value: one.contains_all([value]), is_json),
    "not all": (
        lambda one, value: ~one.contains_all([value, 1]),
        is_json,
    ),
}


async def all_records(memory: PostgresMemory, metadata: list[dict[str, Any]]) -> dict[str, MemoryRecord]:
    await memory.add_many([{"content": "x", "metadata": one} for one in metadata])
    found = {record.id: record for record in await memory.find(limit=10_000)}
    assert len(found) == len(metadata)
    return found


async def matching(memory: Verbs, asked: Filter) -> set[str]:
    return {record.id for record in await memory.find(filter=asked, limit=10_000)}


@pytest.mark.parametrize("name", ASKED)
async def test_every_value_against_every_other(memory: PostgresMemory, name: str) -> None:
    build, takes = ASKED[name]
    kept = await all_records(
        memory,
        [{}, {"b": 1}, *({"a": value} for value in VALUES), *({"a": [value, 1]} for value in VALUES[::3])],
    )
    matched = 0
    for one in (field("metadata", "a"), field("metadata", "a", 0), field("metadata", "a", "a")):
        for value in filter(takes, [*VALUES, *TIMES]):
            asked = build(one, value)
            expected = {id_ for id_, record in kept.items() if holds(asked, record)}
            assert await matching(memory, asked) == expected, asked
            matched += len(expected)
    assert matched


async def test_missing_and_none_are_told_apart_by_exists(memory: PostgresMemory) -> None:
    await memory.add("missing")
    await memory.add("none", metadata={"a": None, "l": [None]})
    await memory.add("value", metadata={"a": 0, "l": [0]})

    async def contents(asked: Any) -> list[str]:
        return sorted(record.content for record in await memory.find(filter=asked))

    for one in (field("metadata", "a"), field("metadata", "l", 0), field("metadata", "l", -1)):
        assert await contents(one.exists()) == ["none", "value"]
        assert await contents(~one.exists()) == ["missing"]
        assert await contents(one.is_none()) == ["missing", "none"]
        assert await contents(one.is_none() & one.exists()) == ["none"]
        assert await contents(one != 0) == ["missing", "none"]
        assert await contents(one < 1) == ["value"]
        assert await contents(~(one < 1)) == ["missing", "none"]
        assert await contents(one.not_in([0, None])) == []


async def test_numbers_compare_as_numbers_exactly(memory: PostgresMemory) -> None:
    numbers: list[Any] = [
        9,
        10,
        1e23,
        10**23,
        10**23 + 1,
        10**30,
        10**30 + 1,
        0.1,
        1e-300,
        -(10**4299),
        "5",
        True,
        None,
    ]
    kept = await all_records(memory, [{"n": number} for number in numbers])
    one = field("metadata", "n")

    assert await memory.count(one > 9) == 6
    (largest,) = await matching(memory, one > 10**30)
    assert kept[largest].metadata == {"n": 10**30 + 1}
    assert await memory.count(one == 1e23) == 2
    assert await memory.count(one > 1e23) == 3
    assert await memory.count(one < 0) == 1
    assert await memory.count(one.between(1e-300, 0.1)) == 2


async def test_a_time_zone_of_the_session_changes_nothing(database: Database) -> None:
    name = database.name
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        for zone, style in (("Asia/Kolkata", "SQL, DMY"), ("America/New_York", "German, MDY")):
            await connection.execute(f"ALTER DATABASE \"{name}\" SET TimeZone = '{zone}'")
            await connection.execute(f"ALTER DATABASE \"{name}\" SET DateStyle = '{style}'")
            async with PostgresMemory(database.dsn, namespace=zone) as memory:
                kept = await all_records(memory, [{"t": value} for value in SCALARS])
                for moment in TIMES:
                    for delta in (-1, 0, 1):
                        asked = field("metadata", "t") >= moment + timedelta(seconds=delta)
                        expected = {id_ for id_, record in kept.items() if holds(asked, record)}
                        assert await matching(memory, asked) == expected
    finally:
        await connection.close()


async def test_every_day_is_read_as_a_time_or_not_at_all(memory: PostgresMemory) -> None:
    """Every day that there is, and those that there are not, of years that matter to leap days."""
    days = [
        f"{year:04}-{month:02}-{day:02}"
        for year in (0, 1, 4, 100, 400, 1900, 2000, 2023, 2024, 2100, 9999)
        for month in range(14)
        for day in range(33)
    ]
    await memory.add_many([{"content": "x", "metadata": {"day": day}} for day in days])
    real = [day for day in days if is_day(day)]
    assert (
        await memory.count(field("metadata", "day") > datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC))
        == len(real) - 1
    )
    assert await memory.count(field("metadata", "day") == datetime(2024, 2, 29, tzinfo=UTC)) == 1


def is_day(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


async def test_what_comes_from_elsewhere_does_not_raise(memory: PostgresMemory) -> None:
    """Values of each kind under one key, asked as each other kind, by every verb that filters."""
    await memory.add_many([{"content": str(n), "metadata": {"n": value}} for n, value in enumerate(VALUES)])
    one = field("metadata", "n")
    for asked in (
        one > 5,
        one > "a",
        one > TIMES[0],
        one.is_in([TIMES[0], 1, "a", None]),
        one.icontains("a"),
    ):
        number = await memory.count(asked)
        assert number + await memory.count(~asked) == len(VALUES)
        assert await memory.contradictions(filter=asked) is not None
    assert await memory.delete_many(one > 5) > 0
    assert await memory.count(one > 5) == 0


async def test_a_namespace_sees_its_own_accesses(memory: PostgresMemory) -> None:
    """Two memories of one id in two namespaces do not share a count."""
    other = Verbs(replace(memory._context, namespace="other"))
    for verbs in (memory, other):
        await verbs.add("x", id="same")
    async with memory._context.database.acquired() as connection:
        await connection.execute(
            "INSERT INTO memory.memory_access (namespace, id, last_accessed, access_count)"
            " VALUES ('other', 'same', now(), 3)"
        )
    assert await memory.count(field("access_count") == 0) == 1
    assert await memory.count(field("last_accessed").exists()) == 0
    assert await other.count((field("access_count") >= 3) & field("last_accessed").exists()) == 1
    assert await other.count(field("last_accessed") > datetime.now(UTC) - timedelta(hours=1)) == 1


async def test_a_fraction_finer_than_a_microsecond_is_rounded(memory: PostgresMemory) -> None:
    await memory.add("x", metadata={"t": "2030-06-01T12:00:00.000000900Z"})
    await memory.add("y", metadata={"t": "2030-06-01T12:00:00.0000001Z"})
    assert await memory.count(field("metadata", "t") == datetime(2030, 6, 1, 12, 0, 0, 1, tzinfo=UTC)) == 1
    assert await memory.count(field("metadata", "t") == datetime(2030, 6, 1, 12, tzinfo=UTC)) == 1
