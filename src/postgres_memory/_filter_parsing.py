"""The dict form of filters, such as a model or a JSON API sends: from plain JSON to the expression tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._filter_fields import check_path, place, rule_of
from ._validation import kind_of
from .errors import InvalidTypeError, InvalidValueError
from .filters import MAX_FILTER_DEPTH, And, Field, Filter, Not, Or

_OPERATORS: dict[str, Callable[[Field, Any], Filter]] = {
    "$eq": Field.__eq__,
    "$ne": Field.__ne__,
    "$in": Field.is_in,
    "$nin": Field.not_in,
    "$lt": Field.__lt__,
    "$lte": Field.__le__,
    "$gt": Field.__gt__,
    "$gte": Field.__ge__,
    "$between": lambda one, pair: one.between(*_check_pair(pair, place(one.path))),
    "$exists": lambda one, wanted: one.exists() if _check_bool(wanted, place(one.path)) else ~one.exists(),
    "$startsWith": Field.starts_with,
    "$endsWith": Field.ends_with,
    "$contains": Field.contains,
    "$icontains": Field.icontains,
    "$containsAny": Field.contains_any,
    "$containsAll": Field.contains_all,
}

_OF_SEVERAL_VALUES = ("$between", "$in", "$nin")


def parse_filter(value: object, where: str, room: int = MAX_FILTER_DEPTH) -> Filter:
    """Return the filter that ``value`` describes, which may be nested ``room`` levels deep."""
    if isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping):
        raise InvalidTypeError(where, f"must be a Filter or a dict, not {kind_of(value)}")
    _check_room(room)
    return _all([_parse_item(key, item, where, room - 1) for key, item in value.items()])


def _all(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else And(parts)


def _check_room(room: int) -> None:
    if not room:
        raise InvalidValueError("filter", f"is nested deeper than {MAX_FILTER_DEPTH}")


def _parse_item(key: object, value: object, where: str, room: int) -> Filter:
    if not isinstance(key, str):
        raise InvalidTypeError(where, f"the name of a field must be a str, not {kind_of(key)}")
    inside = f'{where}["{key[:80]}"]'
    if key == "$not":
        return Not(parse_filter(value, inside, room))
    if key in ("$and", "$or"):
        if not isinstance(value, list | tuple):
            raise InvalidTypeError(inside, f"must be a list of dicts, not {kind_of(value)}")
        parts = [parse_filter(part, f"{inside}[{position}]", room) for position, part in enumerate(value)]
        return And(parts) if key == "$and" else Or(parts)
    if key.startswith("$"):
        raise InvalidValueError(where, f"there is no operator {key[:80]!r} here; there are $and, $or, $not")
    path = key.split(".") if key.startswith("metadata.") else [key]
    return _parse_field(Field(check_path(tuple(path))), value, room)


def _parse_field(one: Field, value: object, room: int) -> Filter:
    where = place(one.path)
    if not isinstance(value, Mapping):
        if one.path == ("metadata",):
            raise InvalidTypeError(where, f"must be a dict of keys, not {kind_of(value)}")
        return _parse_operator(one, "$eq", value, room)
    if not value:
        raise InvalidValueError(where, 'an empty dict says nothing; for equality write {"$eq": {}}')
    _check_room(room)
    if "$path" in value and one.path[0] == "metadata":
        return _parse_path(one, value, room - 1)
    if any(isinstance(key, str) and key.startswith("$") for key in value):
        return _all([_parse_operator(one, key, item, room - 1) for key, item in value.items()])
    if one.path[0] != "metadata":
        raise InvalidValueError(where, "must be a value, or a dict of operators such as $gte")
    return _all([_parse_field(_under(one, key), item, room - 1) for key, item in value.items()])


def _under(one: Field, key: object) -> Field:
    if not isinstance(key, str):
        raise InvalidTypeError(place(one.path), f"the keys inside must be str, not {kind_of(key)}")
    return Field(check_path((*one.path, key)))


def _parse_path(one: Field, value: Mapping[Any, Any], room: int) -> Filter:
    """Read ``{"$path": ["topics", 0], "$eq": "tea"}``: keys that the short forms cannot spell, places in lists."""
    where, steps = place(one.path), value["$path"]
    if not isinstance(steps, list | tuple) or not steps:
        raise InvalidTypeError(where, "$path takes a list of keys (str) and places in lists (int)")
    compared = {key: item for key, item in value.items() if key != "$path"}
    return _parse_field(Field(check_path((*one.path, *steps))), compared, room)


def _parse_operator(one: Field, key: object, value: object, room: int) -> Filter:
    where = place(one.path)
    if key == "$not":
        if not isinstance(value, Mapping):
            raise InvalidTypeError(where, f"$not takes a dict of operators, not {kind_of(value)}")
        return Not(_parse_field(one, value, room))
    if not isinstance(key, str) or key not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        raise InvalidValueError(where, f"there is no operator {str(key)[:80]!r}; there are {known}, $not")
    from_json = rule_of(one.path).from_json
    if key in _OF_SEVERAL_VALUES and isinstance(value, list | tuple):
        value = [from_json(part, f"{where}[{position}]") for position, part in enumerate(value)]
    else:
        value = from_json(value, where)
    return _OPERATORS[key](one, value)


def _check_pair(value: object, where: str) -> list[object]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidValueError(where, "$between takes a list of two values, from and to")
    return value


def _check_bool(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidTypeError(where, f"$exists takes true or false, not {kind_of(value)}")
    return value
