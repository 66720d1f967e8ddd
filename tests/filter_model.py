"""Filters for property tests: how to generate them, what they mean in plain Python, and how JSON spells them."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from postgres_memory.filters import And, Condition, Field, Filter, Not, Operator, Or, field
from postgres_memory.records import MemoryPermissions, MemoryRecord, MemoryStatus, MemoryType

# Few values, so that filters and records meet.
TEXTS = ["a", "b", "B", "ab", "a b", "é", "e\u0301", "😀", "\uffff", "'; --", "%", "\\", "Z", "_"]
NUMBERS = [0.0, 0.1, 0.25, 0.5, 0.30000000000000004, 0.3, 1.0]
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
TIMES = [NOON + timedelta(microseconds=n) for n in (-1, 0, 1)] + [
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(2200, 1, 1, tzinfo=UTC),
]
KEYS = ["a", "b", "0", "$a", "", "é", "'\"\\"]
SCALARS: list[Any] = [None, True, False, 0, 1, 1.0, 1.5, -2, 10, 9, 1e23, 2**70, "", "1", "true", "null", "é"]

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS) | st.floats(0, 1)
times = st.sampled_from(TIMES)
scalars = st.sampled_from(SCALARS)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=4,
)
metadata = st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3)

records = st.builds(
    MemoryRecord,
    content=st.just("text"),
    memory_type=st.sampled_from(MemoryType),
    status=st.sampled_from(MemoryStatus),
    created_at=times,
    tags=st.lists(texts, max_size=3).map(tuple),
    importance=numbers,
    confidence=numbers,
    metadata=metadata,
    permissions=st.builds(MemoryPermissions, owner=texts),
    thread_id=st.none() | texts,
    session_id=st.none() | texts,
    expires_at=st.none() | times,
)


def _ordered(one: Field, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    compare: list[Callable[[Any, Any], Filter]] = [operator.lt, operator.le, operator.gt, operator.ge]
    return st.builds(lambda how, value: how(one, value), st.sampled_from(compare), values) | st.builds(
        one.between, values, values
    )


def _equal(one: Field, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    several = st.lists(values, max_size=3)
    compare: list[Callable[[Any, Any], Filter]] = [operator.eq, operator.ne]
    return (
        st.builds(lambda how, value: how(one, value), st.sampled_from(compare), values)
        | st.builds(one.is_in, several)
        | st.builds(one.not_in, several)
    )


def _conditions() -> st.SearchStrategy[Filter]:
    kinds: list[st.SearchStrategy[Filter]] = []
    for name in ("id", "owner", "thread_id", "session_id"):
        nullable = name.endswith("n_id") or name == "thread_id"
        kinds += [_equal(field(name), st.none() | texts if nullable else texts), _ordered(field(name), texts)]
    for name in ("importance", "confidence"):
        kinds += [_equal(field(name), numbers), _ordered(field(name), numbers | st.integers(-1, 2))]
    for name in ("created_at", "expires_at"):
        values = st.none() | times if name == "expires_at" else times
        kinds += [_equal(field(name), values), _ordered(field(name), times)]
    versions = st.integers(0, 2)
    kinds += [_equal(field("version"), versions), _ordered(field("version"), versions)]
    kinds.append(_equal(field("memory_type"), st.sampled_from(MemoryType)))
    kinds.append(_equal(field("status"), st.sampled_from([*MemoryStatus, "active"])))
    tags = st.lists(texts, max_size=2)
    kinds += [st.builds(field("tags").has_any, tags), st.builds(field("tags").has_all, tags)]
    paths = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)
    inside = paths.flatmap(lambda keys: _equal(field("metadata", *keys), json_values))
    kinds += [inside, inside, inside, _equal(field("metadata"), metadata)]
    return st.one_of(kinds)


filters: st.SearchStrategy[Filter] = st.recursive(
    _conditions(),
    lambda inner: (
        st.builds(And, st.lists(inner, max_size=3))
        | st.builds(Or, st.lists(inner, max_size=3))
        | st.builds(Not, inner)
    ),
    max_leaves=6,
)


def holds(value: Filter, record: MemoryRecord) -> bool:
    """Say whether a filter is true of a record, as somebody who reads it as Python would expect."""
    match value:
        case And(parts=parts):
            return all(holds(part, record) for part in parts)
        case Or(parts=parts):
            return any(holds(part, record) for part in parts)
        case Not(part=part):
            return not holds(part, record)
        case Condition(path=("metadata", *keys)):
            return _metadata_holds(value, keys, record.metadata)
        case Condition():
            return _field_holds(value, record)
        case _:
            raise AssertionError(value)


def _field_holds(condition: Condition, record: MemoryRecord) -> bool:
    (name,) = condition.path
    own = record.permissions.owner if name == "owner" else getattr(record, name)
    given = condition.value
    match condition.operator:
        case Operator.EQ:
            return bool(own == given)
        case Operator.IN:
            return bool(given.count(own))
        case Operator.HAS_ANY:
            return any(tag in own for tag in given)
        case Operator.HAS_ALL:
            return all(tag in own for tag in given)
        case compare:
            compared: bool = own is not None and getattr(operator, compare)(own, given)
            return compared


def _metadata_holds(condition: Condition, keys: list[str], found: Any) -> bool:
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    if condition.operator is Operator.EQ:
        return same_json(found, loaded(condition.value))
    return any(same_json(found, loaded(one)) for one in condition.value)


def loaded(value: Any) -> Any:
    """Return a value of metadata from how a condition keeps it."""
    return None if value is None else json.loads(value.text)


def same_json(one: Any, other: Any) -> bool:
    """Compare as JSON does: numbers by value, and a bool is no number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return exact(one) == exact(other)
    equal: bool = one == other
    return equal and type(one) is type(other)


def exact(number: float) -> Decimal:
    """Return the number as its digits say, which is what the database keeps."""
    return Decimal(repr(number))


def as_dict(value: Filter) -> dict[str, Any]:
    """Return the dict form of a filter, as it goes through JSON."""
    match value:
        case And(parts=parts):
            return {"$and": [as_dict(part) for part in parts]}
        case Or(parts=parts):
            return {"$or": [as_dict(part) for part in parts]}
        case Not(part=part):
            return {"$not": as_dict(part)}
        case Condition(path=(name, *keys), operator=operation):
            spelt: dict[str, Any] = {_SPELLING[operation]: _json(value.value)}
            if any(key.startswith("$") for key in keys):  # which nesting would take for operators
                return {".".join([name, *keys]): spelt}
            for key in reversed(keys):
                spelt = {key: spelt}
            return {name: spelt}
        case _:
            raise AssertionError(value)


_SPELLING = {
    Operator.EQ: "$eq",
    Operator.IN: "$in",
    Operator.LT: "$lt",
    Operator.LE: "$lte",
    Operator.GT: "$gt",
    Operator.GE: "$gte",
    Operator.HAS_ANY: "$has_any",
    Operator.HAS_ALL: "$has_all",
}


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return loaded(value) if hasattr(value, "text") else value
