"""Filters as data: how they are built, what is refused, and their dict form."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given, settings

from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError
from postgres_memory.filters import (
    MAX_FILTER_DEPTH,
    And,
    Condition,
    Filter,
    Not,
    Operator,
    Or,
    check_filter,
    conditions,
    constant_truth,
    field,
)
from postgres_memory.records import MemoryRecord, MemoryStatus
from tests.filter_model import as_dict, filters, holds, records

HIGH: Filter = field("importance") >= 0.5
TEA: Filter = field("metadata", "topic") == "tea"


def test_comparisons_make_conditions() -> None:
    assert list(conditions(HIGH)) == [Condition(("importance",), Operator.GE, 0.5)]
    assert (field("status") != MemoryStatus.ACTIVE) == Not(Condition(("status",), Operator.EQ, "active"))
    assert field("version").between(1, 3) == (field("version") >= 1) & (field("version") <= 3)
    assert (field("importance") < 0.5) == Condition(("importance",), Operator.LT, 0.5)
    assert field("id").not_in(["a"]) == ~field("id").is_in(["a"])
    assert [condition.path for condition in conditions(HIGH & ~(TEA | HIGH))] == [
        ("importance",),
        ("metadata", "topic"),
        ("importance",),
    ]


def test_joins_are_flat_and_a_double_not_is_none() -> None:
    a, b, c = (field("version") == n for n in range(3))
    assert (a & b) & c == a & (b & c) == And([a, b, c])
    assert (a | b) | c == a | (b | c) == Or([a, b, c])
    assert a & (b | c) != (a & b) | c
    assert ~~a == a
    as_dict_too: dict[str, Any] = {"version": 0}
    assert as_dict_too & HIGH == a & HIGH
    assert HIGH | as_dict_too == HIGH | a


def test_filters_are_values() -> None:
    when = datetime(2030, 1, 1, tzinfo=UTC)
    one = (HIGH & TEA) | ~field("tags").has_any(["a"]) | (field("created_at") < when)
    other = (HIGH & TEA) | ~field("tags").has_any(("a",)) | (field("created_at") < when)
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(FrozenInstanceError):
        cast(Any, HIGH).value = 0.1


def test_what_was_given_can_change_later() -> None:
    values: list[Any] = ["a"]
    nested: dict[str, Any] = {"k": values}
    one, other = field("id").is_in(values), field("metadata", "x") == nested
    values.append("b")
    assert one == field("id").is_in(["a"])
    assert other == (field("metadata", "x") == {"k": ["a"]})


def test_json_values_are_kept_apart() -> None:
    key = field("metadata", "k")
    assert key.is_in([1]) != key.is_in([True])
    assert (key == "1") != (key == 1)
    assert (key == {"a": 1, "b": 2}) == (key == {"b": 2, "a": 1})


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(HIGH),
        lambda: HIGH and TEA,
        lambda: not HIGH,
        lambda: 0.2 < field("importance") < 0.5,
        lambda: bool(field("importance")),
        lambda: HIGH & cast(Any, 3),
        lambda: And(cast(Any, HIGH)),
        lambda: And(cast(Any, 3)),
        lambda: Or([cast(Any, "a")]),
        lambda: check_filter(cast(Any, [HIGH])),
        lambda: field("importance") == field("confidence"),
        lambda: Condition(cast(Any, "importance"), Operator.EQ, 1),
    ],
)
def test_what_python_would_take_otherwise_is_a_type_error(use: Any) -> None:
    with pytest.raises(InvalidTypeError):
        use()


BAD_TYPES: list[tuple[str, Any]] = [
    ("id", 1),
    ("id", None),
    ("thread_id", 1),
    ("status", 1),
    ("memory_type", None),
    ("owner", b"a"),
    ("importance", "0.5"),
    ("importance", True),
    ("importance", None),
    ("version", 1.0),
    ("version", True),
    ("created_at", "2030-01-01"),
    ("created_at", date(2030, 1, 1)),
    ("created_at", None),
    ("metadata", "a"),
]
BAD_VALUES: list[tuple[str, Any]] = [
    ("id", "a\0"),
    ("thread_id", "\ud800"),
    ("status", "gone"),
    ("importance", float("nan")),
    ("importance", float("inf")),
    ("importance", 10**400),
    ("version", 2**63),
    ("expires_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
]


@pytest.mark.parametrize(("name", "value"), BAD_TYPES + BAD_VALUES)
def test_values_of_the_wrong_kind_are_refused(name: str, value: Any) -> None:
    kind = InvalidTypeError if (name, value) in BAD_TYPES else InvalidValueError
    for operator in (Operator.EQ, Operator.IN):
        with pytest.raises(kind) as raised:
            Condition((name,), operator, [value] if operator is Operator.IN else value)
        assert raised.value.argument.startswith(f'filter["{name}"]')
        if isinstance(value, str):
            assert repr(value) not in str(raised.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda: field("topic"),
        lambda: field("importance", "a"),
        lambda: field("metadata", *["k"] * 129),
        lambda: field("metadata", "a\0"),
        lambda: field("status") < "b",
        lambda: field("tags") == "a",
        lambda: field("tags").is_in(["a"]),
        lambda: field("id").has_any(["a"]),
        lambda: field("metadata", "a") < 3,
        lambda: Condition(("id",), cast(Any, "like"), "a"),
        lambda: field("metadata", "k") == "a\0",
    ],
)
def test_what_there_is_not_is_a_value_error(use: Any) -> None:
    with pytest.raises(InvalidValueError):
        use()


@pytest.mark.parametrize(
    "use",
    [
        lambda: field(cast(Any, 1)),
        lambda: field("metadata", cast(Any, 1)),
        lambda: field("id").is_in("abc"),
        lambda: field("id").is_in(cast(Any, 3)),
        lambda: field("tags").has_any("abc"),
        lambda: field("tags").has_any([cast(Any, None)]),
        lambda: field("thread_id") < None,
        lambda: field("metadata", "k") == {1, 2},
        lambda: field("metadata", "k") == datetime(2030, 1, 1, tzinfo=UTC),
    ],
)
def test_what_cannot_be_compared_is_a_type_error(use: Any) -> None:
    with pytest.raises(InvalidTypeError):
        use()


def test_a_naive_time_is_local_and_an_enum_its_value() -> None:
    naive = datetime(2030, 1, 1, 12)
    assert (field("created_at") == naive) == (field("created_at") == naive.astimezone(UTC))
    assert (field("status") == "active") == (field("status") == MemoryStatus.ACTIVE)


@settings(max_examples=150, deadline=None)
@given(filters)
def test_the_dict_form_says_the_same(one: Filter) -> None:
    through_json = json.loads(json.dumps(as_dict(one)))
    assert Filter.from_dict(through_json) == one
    assert check_filter(through_json) == one


@settings(max_examples=150, deadline=None)
@given(filters, records)
def test_a_constant_truth_holds(one: Filter, record: MemoryRecord) -> None:
    truth = constant_truth(one)
    assert truth is None or holds(one, record) is truth


def test_dicts_in_short() -> None:
    when = datetime(2030, 1, 31, 12, tzinfo=UTC)
    tea = field("metadata", "topic") == "tea"
    same: list[tuple[dict[str, Any], Filter]] = [
        ({}, And()),
        ({"importance": 0.5}, field("importance") == 0.5),
        ({"thread_id": None}, field("thread_id").is_none()),
        (
            {"importance": {"$gte": 0.5, "$lt": 0.9}},
            (field("importance") >= 0.5) & (field("importance") < 0.9),
        ),
        ({"importance": {"$between": [0.5, 0.9]}}, field("importance").between(0.5, 0.9)),
        ({"version": {"$ne": 1}}, field("version") != 1),
        ({"id": {"$nin": ["a"]}}, field("id").not_in(["a"])),
        ({"created_at": {"$lt": "2030-01-31T12:00:00Z"}}, field("created_at") < when),
        (
            {"created_at": {"$between": ["2030-01-31T12:00:00+00:00", when]}},
            field("created_at").between(when, when),
        ),
        ({"expires_at": {"$in": [None, "2030-01-31T12:00Z"]}}, field("expires_at").is_in([None, when])),
        ({"tags": {"$has_any": ["a"]}, "version": 1}, field("tags").has_any(["a"]) & (field("version") == 1)),
        ({"metadata.topic": "tea"}, tea),
        ({"metadata": {"topic": "tea"}}, tea),
        ({"metadata": {"topic": {"$in": ["tea"]}}}, field("metadata", "topic").is_in(["tea"])),
        (
            {"metadata": {"a": {"b": 1, "c": 2}}},
            (field("metadata", "a", "b") == 1) & (field("metadata", "a", "c") == 2),
        ),
        ({"metadata.a": {"b": 1}}, field("metadata", "a", "b") == 1),
        ({"metadata": {"a.b": {"$eq": {}}}}, field("metadata", "a.b") == {}),
        ({"metadata": {"a": [1]}}, field("metadata", "a") == [1]),
        ({"metadata": {"a": None}}, field("metadata", "a").is_none()),
        ({"$not": {"version": 1}}, field("version") != 1),
        ({"$or": [{"version": 1}, TEA]}, (field("version") == 1) | TEA),
        ({"$and": [{"version": 1}], "metadata.topic": "tea"}, (field("version") == 1) & TEA),
        ({"$or": []}, Or()),
    ]
    for given_dict, expected in same:
        assert check_filter(given_dict) == expected or And([expected]) == check_filter(given_dict), given_dict


BAD_DICTS: list[Any] = [
    {"topic": "tea"},
    {"$nor": []},
    {"$and": {"version": 1}},
    {"$and": [3]},
    {"$or": "ab"},
    {"$not": [{"version": 1}]},
    {1: 2},
    {"importance": {}},
    {"importance": {"$gte": 0.5, "lt": 1}},
    {"importance": {"gte": 0.5}},
    {"importance": {"$regex": "a"}},
    {"importance": {"$between": [1]}},
    {"importance": {"$between": 1}},
    {"importance": {"$in": 1}},
    {"importance": "0.5"},
    {"importance": [0.5]},
    {"status": {"$gt": "active"}},
    {"created_at": "yesterday"},
    {"created_at": {"$in": ["2030-01-01", 3]}},
    {"metadata": "tea"},
    {"metadata": None},
    {"metadata": {}},
    {"metadata": {"a": {}}},
    {"metadata": {"a": {"$gt": 1}}},
    {"metadata": {"a": {"$eq": 1, "b": 2}}},
    {"metadata": {1: 2}},
    {"importance.x": 1},
    [],
    "importance",
    0,
]


@pytest.mark.parametrize("bad", BAD_DICTS, ids=map(str, BAD_DICTS))
def test_a_bad_dict_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        check_filter(bad)


def nested(kind: str, levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"version": 1}
    for level in range(levels):
        if kind == "not":
            value = {"$not": value}
        elif kind == "metadata":
            value = {"k": value}
        else:
            value = {"$or" if level % 2 else "$and": [value, {"version": 2}]}
    return {"metadata": value} if kind == "metadata" else value


@pytest.mark.parametrize("kind", ["not", "joins", "metadata"])
def test_depth_is_bounded(kind: str) -> None:
    check_filter(nested(kind, MAX_FILTER_DEPTH - 4))
    for levels in (MAX_FILTER_DEPTH + 1, 100_000):
        with pytest.raises(InvalidValueError, match="nested deeper"):
            check_filter(nested(kind, levels))
    deep: Filter = HIGH
    for _ in range(MAX_FILTER_DEPTH):
        deep = Not(deep)
    with pytest.raises(InvalidValueError, match="nested deeper"):
        check_filter(deep)


@pytest.mark.parametrize(
    ("one", "truth"),
    [
        (And(), True),
        (Or(), False),
        (~Or(), True),
        (Or([HIGH, And()]), True),
        (And([HIGH, Or()]), False),
        (And([And(), ~Or([And([Or()])])]), True),
        (field("id").not_in([]), True),
        (field("tags").has_all([]), True),
        (field("tags").has_any([]), False),
        (field("metadata", "a").not_in([]), True),
        (HIGH, None),
        (And([HIGH, And()]), None),
        (Or([HIGH, Or()]), None),
        (~HIGH, None),
    ],
)
def test_what_is_always_so(one: Filter, truth: bool | None) -> None:
    assert constant_truth(one) is truth


def test_none_is_every_memory() -> None:
    assert check_filter(None) == And() == check_filter({})
