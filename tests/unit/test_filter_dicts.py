"""The dict form of filters: what it says, what is refused, and that it says all that the other form does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from postgres_memory.errors import InvalidInputError, InvalidValueError
from postgres_memory.filters import MAX_FILTER_DEPTH, And, Filter, Not, Or, check_filter, field
from tests.filter_model import as_dict, filters

HIGH: Filter = field("importance") >= 0.5
TEA: Filter = field("metadata", "topic") == "tea"


@settings(max_examples=150, deadline=None)
@given(filters)
def test_the_dict_form_says_the_same(one: Filter) -> None:
    through_json = json.loads(json.dumps(as_dict(one)))
    assert Filter.from_dict(through_json) == one
    assert check_filter(through_json) == one


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
        (
            {"tags": {"$containsAny": ["a"]}, "version": 1},
            field("tags").contains_any(["a"]) & (field("version") == 1),
        ),
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
        ({"thread_id": {"$exists": True}}, field("thread_id").exists()),
        ({"metadata.a": {"$exists": False}}, ~field("metadata", "a").exists()),
        ({"content": {"$startsWith": "a%"}}, field("content").starts_with("a%")),
        ({"content": {"$endsWith": "a"}}, field("content").ends_with("a")),
        ({"content": {"$contains": "a"}}, field("content").contains("a")),
        ({"content": {"$icontains": "a"}}, field("content").icontains("a")),
        ({"tags": {"$contains": "a"}}, field("tags").contains("a")),
        ({"tags": ["a", "b"]}, field("tags") == ("a", "b")),
        ({"readers": {"$containsAll": ["a", "b"]}}, field("readers").contains_all(["a", "b"])),
        ({"metadata.a": {"$containsAny": [1, None]}}, field("metadata", "a").contains_any([1, None])),
        (
            {"metadata.a": {"$gt": 5, "$lte": 1e23}},
            (field("metadata", "a") > 5) & (field("metadata", "a") <= 1e23),
        ),
        ({"metadata.a.0": 1}, field("metadata", "a", "0") == 1),
        ({"metadata": {"$path": ["a.b", 0, "$c"], "$eq": 1}}, field("metadata", "a.b", 0, "$c") == 1),
        ({"metadata": {"a": {"$path": [-1], "$lt": 1}}}, field("metadata", "a", -1) < 1),
        (
            {"metadata": {"$path": ["a.b"], "c": 1, "d": {"$path": ["e"], "$gt": 2}}},
            (field("metadata", "a.b", "c") == 1) & (field("metadata", "a.b", "d", "e") > 2),
        ),
        ({"metadata.a": {"$lt": {"$date": "2030-01-31T12:00:00Z"}}}, field("metadata", "a") < when),
        (
            {"metadata.a": {"$in": ["x", {"$date": "2030-01-31T12:00Z"}]}},
            field("metadata", "a").is_in(["x", when]),
        ),
        ({"created_at": {"$lt": {"$date": "2030-01-31T12:00:00Z"}}}, field("created_at") < when),
        ({"last_accessed": None}, field("last_accessed").is_none()),
        (
            {"importance": {"$not": {"$gt": 0.5, "$lt": 0.7}}},
            ~((field("importance") > 0.5) & (field("importance") < 0.7)),
        ),
        ({"metadata.a": {"$not": {"$not": {"$eq": 1}}}}, Not(field("metadata", "a") != 1)),
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
    {"metadata": {"a": {"$gt": [1]}}},
    {"metadata": {"a": {"$gt": True}}},
    {"metadata": {"a": {1: 2}}},
    {"metadata": {"$path": []}},
    {"metadata": {"$path": ["a"]}},
    {"metadata": {"$path": "a", "$eq": 1}},
    {"metadata": {"$path": [0], "$eq": 1}},
    {"metadata": {"$path": ["a", 1.5], "$eq": 1}},
    {"metadata": {"$path": ["a", True], "$eq": 1}},
    {"metadata": {"a": {"$gt": {"$date": "yesterday"}}}},
    {"metadata": {"a": {"$gt": {"$date": 1}}}},
    {"metadata": {"a": {"$date": "2030-01-01"}}},
    {"metadata": {"a": {"$exists": 1}}},
    {"metadata": {"a": {"$startsWith": 1}}},
    {"metadata": {"a": {"$containsAny": "abc"}}},
    {"metadata": {"a": {"$regex": "a"}}},
    {"metadata": {"a": {"$not": 1}}},
    {"metadata": {"a": {"$not": {}}}},
    {"id": {"$path": ["a"], "$eq": 1}},
    {"namespace": "a"},
    {"tags": "a"},
    {"tags": {"$in": ["a"]}},
    {"content": {"$contains": 1}},
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
        elif kind == "field":
            value = {"$not": value if level else {"$gt": 1}}
        elif kind == "path":
            value = {"$path": ["k"], **(value if "$path" not in value else {"k": value})}
        else:
            value = {"$or" if level % 2 else "$and": [value, {"version": 2}]}
    if kind == "field":
        return {"version": value}
    return {"metadata": value} if kind in ("metadata", "path") else value


@pytest.mark.parametrize("kind", ["not", "joins", "metadata", "field", "path"])
def test_depth_is_bounded(kind: str) -> None:
    check_filter(nested(kind, MAX_FILTER_DEPTH // 4 if kind == "path" else MAX_FILTER_DEPTH - 4))
    for levels in (MAX_FILTER_DEPTH + 1, 100_000):
        with pytest.raises(InvalidValueError, match="nested deeper"):
            check_filter(nested(kind, levels))
    deep: Filter = HIGH
    for _ in range(MAX_FILTER_DEPTH):
        deep = Not(deep)
    with pytest.raises(InvalidValueError, match="nested deeper"):
        check_filter(deep)
