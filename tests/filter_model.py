"""Filters for property tests: how to generate them and the records they are asked of, and how JSON spells them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from postgres_memory.filters import And, Condition, Field, Filter, Not, Operator, Or, field
from postgres_memory.records import MemoryPermissions, MemoryRecord, MemoryStatus, MemoryType
from tests.filter_meaning import loaded

# Few values, so that filters and records meet.
TEXTS = [
    *[
        "a",
        "b",
        "B",
        "ab",
        "a b",
        "é",
        "É",
        "e\u0301",
        "😀",
        "\uffff",
        "'; --",
        "%",
        "a%",
        "\\",
        "\\%",
        "Z",
        "_",
    ],
    *["a_b", "$1", "]", '"', "ba", "%b", "\n"],
]
NUMBERS = [0.0, 0.1, 0.25, 0.5, 0.30000000000000004, 0.3, 1.0]
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
TIMES = [NOON + timedelta(microseconds=n) for n in (-1, 0, 1)] + [
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(2200, 1, 1, tzinfo=UTC),
]
KEYS = ["a", "b", "0", "$a", "", "é", "'\"\\", "a.b", "$path"]
PLACES = [0, 1, -1, 2**31 - 1]
TIME_TEXTS = [
    *[
        "2030-06-01T12:00:00+00:00",
        "2030-06-01T14:00+02:00",
        "2030-06-01 12:00:00.000001Z",
        "2030-06-01T12:00",
    ],
    *[
        "2030-06-01",
        "2200-01-01",
        "2030-06-01T11:59:59.999999",
        "2030-06-01T06:30:00-0530",
        "0001-01-01T00:00+14:00",
    ],
    *[
        "2030-02-29",
        "2030-13-01",
        "2030-06-01T25:00",
        "2030-06-01T12:00:61",
        "now",
        "2030",
        "2030-06-01T12:00:00 ",
    ],
    *[
        "infinity",
        "0000-01-01",
        "2030-06-01T12:00:00+16:00",
        "1900-02-29",
        "2000-02-29T00:00:00Z",
        "2030-6-1",
    ],
    *[
        "2030-06-01T12:00:00\n",
        "٢٠٣٠-٠٦-٠١",
        "9999-12-31T23:59:59.999999-15:59",
        "2030-06-01T12:00:00.0000000000000000001",
        f"2030-06-01T12:00:00.{'0' * 300}Z",
    ],
]
SCALARS: list[Any] = [
    *[None, True, False, 0, 1, 1.0, 1.5, -2, 10, 9, 1e23, 10**23, 10**23 + 1, 2**70, 0.1, 1e-300],
    *[123456789012345678901234567890, 123456789012345678901234567891],
    *["", "1", "10", "9", "true", "null", "é", "abc", "a%", "A"],
    *TIME_TEXTS,
]

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS) | st.floats(0, 1)
times = st.sampled_from(TIMES)
scalars = st.sampled_from(SCALARS)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=4,
)
metadata = st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3)
several_texts = st.lists(texts, max_size=3).map(tuple)

records = st.builds(
    MemoryRecord,
    content=st.just("text") | texts,
    memory_type=st.sampled_from(MemoryType),
    status=st.sampled_from(MemoryStatus),
    created_at=times,
    updated_at=times,
    tags=several_texts,
    importance=numbers,
    confidence=numbers,
    metadata=metadata,
    permissions=st.builds(MemoryPermissions, owner=texts, readers=several_texts, writers=several_texts),
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
    several = st.lists(values, max_size=3) | st.lists(values, min_size=40, max_size=50)
    compare: list[Callable[[Any, Any], Filter]] = [operator.eq, operator.ne]
    return (
        st.builds(lambda how, value: how(one, value), st.sampled_from(compare), values)
        | st.builds(one.is_in, several)
        | st.builds(one.not_in, several)
        | st.just(one.exists())
    )


def _text(one: Field) -> st.SearchStrategy[Filter]:
    how = st.sampled_from([one.starts_with, one.ends_with, one.contains, one.icontains])
    return st.builds(lambda ask, text: ask(text), how, st.just("") | texts)


def _listed(one: Field, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    several = st.lists(values, max_size=2) | st.lists(values, min_size=40, max_size=50)
    return (
        st.builds(one.contains_any, several)
        | st.builds(one.contains_all, several)
        | st.builds(one.contains, values)
    )


def _inside(keys: list[str | int]) -> st.SearchStrategy[Filter]:
    one = field("metadata", "a", *keys[1:]) if isinstance(keys[0], int) else field("metadata", *keys)
    ordered = st.sampled_from(
        [value for value in SCALARS if value is not None and not isinstance(value, bool)]
    )
    return st.one_of(
        _equal(one, json_values | times),
        _ordered(one, ordered | times),
        _text(one),
        _listed(one, json_values),
    )


def _conditions() -> st.SearchStrategy[Filter]:
    kinds: list[st.SearchStrategy[Filter]] = []
    for name in ("id", "content", "owner", "thread_id", "session_id", "supersedes"):
        one = field(name)
        given = texts if name in ("id", "content", "owner") else st.none() | texts
        kinds += [_equal(one, given), _ordered(one, texts), _text(one)]
    for name in ("importance", "confidence"):
        kinds += [_equal(field(name), numbers), _ordered(field(name), numbers | st.integers(-1, 2))]
    for name in ("created_at", "updated_at", "expires_at", "last_accessed"):
        values = st.none() | times if name in ("expires_at", "last_accessed") else times
        kinds += [_equal(field(name), values), _ordered(field(name), times)]
    for name in ("version", "access_count"):
        counts = st.integers(0, 2)
        kinds += [_equal(field(name), counts), _ordered(field(name), counts)]
    kinds.append(_equal(field("memory_type"), st.sampled_from(MemoryType)))
    kinds.append(_equal(field("status"), st.sampled_from([*MemoryStatus, "active"])))
    for name in ("tags", "readers", "writers"):
        kinds += [
            _listed(field(name), texts),
            st.builds(lambda one, value: one == value, st.just(field(name)), several_texts),
        ]
    steps: list[str | int] = [*KEYS, *PLACES]
    paths = st.lists(st.sampled_from(steps), min_size=1, max_size=3)
    inside = paths.flatmap(_inside)
    kinds += [*[inside] * 12, _equal(field("metadata"), metadata)]
    return st.one_of(kinds)


conditions = _conditions()
filters: st.SearchStrategy[Filter] = st.recursive(
    conditions,
    lambda inner: (
        st.builds(And, st.lists(inner, max_size=3))
        | st.builds(Or, st.lists(inner, max_size=3))
        | st.builds(Not, inner)
    ),
    max_leaves=6,
)


def as_dict(value: Filter) -> dict[str, Any]:
    """Return the dict form of a filter, as it goes through JSON."""
    match value:
        case And(parts=parts):
            return {"$and": [as_dict(part) for part in parts]}
        case Or(parts=parts):
            return {"$or": [as_dict(part) for part in parts]}
        case Not(part=Condition(path=path, operator=Operator.EXISTS)):
            return _at(path, {"$exists": False})
        case Not(part=part):
            return {"$not": as_dict(part)}
        case Condition(path=path, operator=operation):
            return _at(path, {_SPELLING[operation]: _json(value.value)})
        case _:
            raise AssertionError(value)


def _at(path: tuple[str | int, ...], compared: dict[str, Any]) -> dict[str, Any]:
    name, *keys = path
    if any(isinstance(key, int) or key.startswith("$") or "." in key for key in keys):
        return {str(name): {"$path": keys, **compared}}
    if len(keys) % 2:
        return {".".join([str(name), *map(str, keys)]): compared}
    for key in reversed(keys):
        compared = {str(key): compared}
    return {str(name): compared}


_SPELLING = {
    Operator.EQ: "$eq",
    Operator.IN: "$in",
    Operator.LT: "$lt",
    Operator.LE: "$lte",
    Operator.GT: "$gt",
    Operator.GE: "$gte",
    Operator.EXISTS: "$exists",
    Operator.STARTS_WITH: "$startsWith",
    Operator.ENDS_WITH: "$endsWith",
    Operator.CONTAINS: "$contains",
    Operator.ICONTAINS: "$icontains",
    Operator.CONTAINS_ANY: "$containsAny",
    Operator.CONTAINS_ALL: "$containsAll",
}


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(one) for one in value]
    if isinstance(value, datetime):
        return {"$date": value.isoformat()}
    return loaded(value) if hasattr(value, "text") else value
