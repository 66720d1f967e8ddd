"""Filters as data: how they are built, what is refused, and their dict form."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given, settings

from postgres_memory.errors import InvalidTypeError, InvalidValueError
from postgres_memory.filters import (
    MAX_FILTER_VALUES,
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
from tests.filter_meaning import holds
from tests.filter_model import filters, records

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
    one = (HIGH & TEA) | ~field("tags").contains_any(["a"]) | (field("created_at") < when)
    other = (HIGH & TEA) | ~field("tags").contains_any(("a",)) | (field("created_at") < when)
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


def _nested_list(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


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
    ("access_count", 1.5),
    ("access_count", None),
    ("last_accessed", "2030-01-01"),
    ("content", None),
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
        lambda: field("tags").is_in(["a"]),
        lambda: field("tags") < ["a"],
        lambda: field("tags").starts_with("a"),
        lambda: field("status").contains("a"),
        lambda: field("importance").icontains("a"),
        lambda: field("id").contains_any(["a"]),
        lambda: field("metadata").contains("a"),
        lambda: field("metadata") < {"a": 1},
        lambda: field("namespace") == "a",
        lambda: field("seq") == 1,
        lambda: field("relations").exists(),
        lambda: field("metadata", "a", 2**31),
        lambda: field("metadata", "a", *[0] * 17),
        lambda: field("metadata", "a\ud800"),
        lambda: Condition(("metadata", "a"), Operator.GT, math.nan),
        lambda: field("metadata", "a") > -math.inf,
        lambda: field("metadata", "a").contains("\0"),
        lambda: field("metadata", "a").starts_with("\ud800"),
        lambda: field("metadata", "a") == 10**4300,
        lambda: field("metadata", "a") == _nested_list(200),
        lambda: field("content").contains("\0"),
        lambda: field("id").is_in(map(str, itertools.count())),
        lambda: field("tags").contains_all(["a"] * (MAX_FILTER_VALUES + 1)),
        lambda: check_filter(
            field("id").is_in(["a"] * MAX_FILTER_VALUES) | field("metadata", "a").contains_any([1])
        ),
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
        lambda: field("id").is_in("abc"),
        lambda: field("id").is_in(cast(Any, 3)),
        lambda: field("tags").contains_any("abc"),
        lambda: field("tags").contains_any([cast(Any, None)]),
        lambda: field("thread_id") < None,
        lambda: field("metadata", "k") == {1, 2},
        lambda: field("metadata", "k").contains_any([datetime(2030, 1, 1, tzinfo=UTC)]),
        lambda: field("metadata") == {"k": datetime(2030, 1, 1, tzinfo=UTC)},
        lambda: field("metadata") == None,  # noqa: E711
        lambda: field("metadata").is_none(),
        lambda: field("metadata", "k") == date(2030, 1, 1),
        lambda: field("metadata", "k") < True,
        lambda: field("metadata", "k") < None,
        lambda: field("metadata", "k") >= [1],
        lambda: field("metadata", "k") >= Decimal(1),
        lambda: field("metadata", "k").icontains(cast(Any, 1)),
        lambda: field("metadata", 0),
        lambda: field("metadata", "k", cast(Any, True)),
        lambda: field("metadata", "k", cast(Any, 1.0)),
        lambda: field("metadata", "k", cast(Any, None)),
        lambda: field("tags") == "a",
        lambda: field("tags") == [1],
        lambda: field("tags").contains(1),
        lambda: field("content").starts_with(cast(Any, None)),
        lambda: Condition(("id",), Operator.EXISTS, False),
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
@given(filters, records)
def test_a_constant_truth_holds(one: Filter, record: MemoryRecord) -> None:
    truth = constant_truth(one)
    assert truth is None or holds(one, record) is truth


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
        (field("tags").contains_all([]), True),
        (field("tags").contains_any([]), False),
        (field("metadata", "a").not_in([]), True),
        (field("metadata", "a").contains_all([]), None),
        (field("metadata", "a").exists(), None),
        (field("metadata", "a").contains(""), None),
        (field("metadata").exists(), True),
        (field("id").exists(), True),
        (~field("tags").exists(), False),
        (field("thread_id").exists(), None),
        (field("thread_id").contains(""), None),
        (field("content").contains(""), True),
        (field("content").starts_with(""), True),
        (field("tags").contains(""), None),
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
