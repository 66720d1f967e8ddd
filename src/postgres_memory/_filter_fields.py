"""What each field of a record can be compared with: operators, the check of a value, and how JSON spells it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from math import isfinite
from typing import Any

from ._json import MAX_METADATA_DEPTH, decode_metadata, encode_metadata
from ._record_checks import check_enum, check_time
from ._validation import check_text, kind_of
from .errors import InvalidTypeError, InvalidValueError
from .records import MemoryStatus, MemoryType

MAX_FILTER_VALUES = 100_000
"""How many values the lists of a filter may hold, together."""

#: How many places in lists a path may name: each is a call inside a call, which SQLAlchemy compiles recursively.
_MAX_PLACES = 16

_MIN_BIGINT, _MAX_BIGINT = -(2**63), 2**63 - 1

#: PostgreSQL counts the places of a list in int4; its smallest has no positive twin.
_MAX_PLACE = 2**31 - 1

Path = tuple[str | int, ...]


class Operator(StrEnum):
    """What a condition asks of a field. The others are made of these: ``!=`` is a not, ``between`` two of them."""

    EQ = "eq"
    IN = "in"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EXISTS = "exists"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    CONTAINS_ANY = "contains_any"
    CONTAINS_ALL = "contains_all"


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value of metadata as JSON text, the keys of its objects sorted: hashable, and 1 is not True."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How one field is compared. ``from_json`` reads what JSON has no type for; ``several``: it holds many texts."""

    check: Callable[[object, str], Any]
    operators: frozenset[Operator]
    nullable: bool = False
    several: bool = False
    from_json: Callable[[object, str], object] = lambda value, _: value


def _check_number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(where, f"must be a number, not {kind_of(value)}")
    if not isinstance(value, int):
        if not isfinite(value):
            raise InvalidValueError(where, "must be finite")
        return float(value)
    return float(_check_integer(value, where))


def _check_integer(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(where, f"must be an int, not {kind_of(value)}")
    if not _MIN_BIGINT <= value <= _MAX_BIGINT:
        raise InvalidValueError(where, f"must be from {_MIN_BIGINT} to {_MAX_BIGINT}")
    return int(value)


def _check_moment(value: object, where: str) -> datetime:
    checked = check_time(value, where)
    if checked is None:
        raise InvalidTypeError(where, "must be a datetime, not None")
    return checked


def _time_from_json(value: object, where: str) -> object:
    """Read a time as JSON spells it: an ISO 8601 text, plain or, as metadata needs it, as ``{"$date": …}``."""
    spelt = _date_from_json(value, where)
    return _parse_time(spelt, where) if isinstance(spelt, str) else spelt


def _date_from_json(value: object, where: str) -> object:
    if not isinstance(value, Mapping) or value.keys() != {"$date"}:
        return value
    if not isinstance(value["$date"], str):
        raise InvalidTypeError(where, f"$date takes a text in ISO 8601, not {kind_of(value['$date'])}")
    return _parse_time(value["$date"], where)


def _parse_time(text: str, where: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValueError(where, "must be a time in ISO 8601, such as 2030-01-31T12:00:00Z") from None


ORDERINGS = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})
TEXT_OPERATORS = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.ICONTAINS})
_EQUAL = frozenset({Operator.EQ, Operator.IN, Operator.EXISTS})
_ORDERED = _EQUAL | ORDERINGS
_LISTED = frozenset({Operator.CONTAINS_ANY, Operator.CONTAINS_ALL})
_SEVERAL = _LISTED | {Operator.IN}

_TEXT = FieldRule(check_text, _ORDERED | TEXT_OPERATORS)
_NULLABLE_TEXT = FieldRule(check_text, _ORDERED | TEXT_OPERATORS, nullable=True)
_TEXTS = FieldRule(check_text, _LISTED | {Operator.CONTAINS, Operator.EQ, Operator.EXISTS}, several=True)
_NUMBER = FieldRule(_check_number, _ORDERED)
_INTEGER = FieldRule(_check_integer, _ORDERED)
_TIME = FieldRule(_check_moment, _ORDERED, from_json=_time_from_json)
_NULLABLE_TIME = FieldRule(_check_moment, _ORDERED, nullable=True, from_json=_time_from_json)

FIELD_RULES = {
    "id": _TEXT,
    "content": _TEXT,
    "thread_id": _NULLABLE_TEXT,
    "session_id": _NULLABLE_TEXT,
    "supersedes": _NULLABLE_TEXT,
    "owner": _TEXT,
    "memory_type": FieldRule(lambda value, where: check_enum(value, MemoryType, where).value, _EQUAL),
    "status": FieldRule(lambda value, where: check_enum(value, MemoryStatus, where).value, _EQUAL),
    "importance": _NUMBER,
    "confidence": _NUMBER,
    "version": _INTEGER,
    "access_count": _INTEGER,
    "created_at": _TIME,
    "updated_at": _TIME,
    "expires_at": _NULLABLE_TIME,
    "last_accessed": _NULLABLE_TIME,
    "tags": _TEXTS,
    "readers": _TEXTS,
    "writers": _TEXTS,
    "metadata": FieldRule(lambda value, _: value, _EQUAL, from_json=_date_from_json),
}

#: Of what metadata holds under a key. Values of metadata are checked by `_check_inside`.
_INSIDE = FieldRule(lambda value, _: value, frozenset(Operator), nullable=True, from_json=_date_from_json)


def rule_of(path: Path) -> FieldRule:
    """Return how the field is compared that a checked path leads to."""
    return FIELD_RULES[str(path[0])] if len(path) == 1 else _INSIDE


def check_path(path: object) -> Path:
    """Return the name of a field, and for metadata the keys and places inside it, if there can be such a field."""
    if not isinstance(path, tuple) or not path:
        raise InvalidTypeError("filter", f"the path to a field must be a tuple of str, not {kind_of(path)}")
    name, *steps = path
    name = check_text(name, "filter")
    if name not in FIELD_RULES:
        known = ", ".join(sorted(FIELD_RULES))
        raise InvalidValueError(
            "filter", f"there is no field {name[:80]!r}; there are {known} (and metadata.KEY)"
        )
    if steps and name != "metadata":
        raise InvalidValueError(place((name,)), "has no keys inside it; only metadata has")
    if len(steps) > MAX_METADATA_DEPTH:
        raise InvalidValueError(place((name,)), f"has no more than {MAX_METADATA_DEPTH} levels of keys")
    if steps and isinstance(steps[0], int):
        raise InvalidTypeError(place((name,)), "is a dict: the first of its keys must be a str, not an int")
    checked = [_check_step(step) for step in steps]
    if sum(isinstance(step, int) for step in checked) > _MAX_PLACES:
        raise InvalidValueError(place((name,)), f"has no more than {_MAX_PLACES} places in lists in a path")
    return (name, *checked)


def _check_step(step: object) -> str | int:
    if not isinstance(step, int) or isinstance(step, bool):
        return check_text(step, "filter")
    if abs(step) > _MAX_PLACE:
        raise InvalidValueError("filter", f"a place in a list must be from {-_MAX_PLACE} to {_MAX_PLACE}")
    return int(step)


def place(path: Path) -> str:
    """Spell where a value stands, as error messages name it: ``filter["metadata"]["topics"][0]``."""
    return "filter" + "".join(f"[{json.dumps(step, ensure_ascii=False)}]" for step in path)


def check_operator(path: Path, operator: object) -> Operator:
    """Return the operator, if the field has it."""
    found = check_enum(operator, Operator, place(path))
    has = rule_of(path).operators
    if found not in has:
        raise InvalidValueError(
            place(path), f"cannot be compared by {found}; it has {', '.join(sorted(has))}"
        )
    return found


def check_value(path: Path, operator: Operator, value: object) -> object:
    """Return what the field is compared with, as it is kept: hashable, and a tuple where it is several."""
    where, rule = place(path), rule_of(path)
    if operator is Operator.EXISTS:
        if value is not True:
            raise InvalidTypeError(where, "exists is either asked for, by True, or negated as a whole")
        return True
    if operator in TEXT_OPERATORS and (operator is not Operator.CONTAINS or path[0] != "metadata"):
        return check_text(value, where)
    if operator not in _SEVERAL and not rule.several:
        return _check_one(path, operator, value, where)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidTypeError(where, f"must be a list of values, not {kind_of(value)}")
    values = tuple(islice(value, MAX_FILTER_VALUES + 1))
    if len(values) > MAX_FILTER_VALUES:
        raise InvalidValueError(where, f"must be at most {MAX_FILTER_VALUES} values")
    return tuple(
        _check_one(path, operator, one, f"{where}[{position}]") for position, one in enumerate(values)
    )


def _check_one(path: Path, operator: Operator, value: object, where: str) -> object:
    if path[0] == "metadata":
        return _check_inside(path, operator, value, where)
    rule = rule_of(path)
    if value is None and rule.nullable and operator in _EQUAL:
        return None
    return rule.check(value, where)


def _check_inside(path: Path, operator: Operator, value: object, where: str) -> object:
    """Return a value of metadata: None, a datetime (which texts of metadata are compared with as times) or its JSON."""
    if operator in ORDERINGS and (
        isinstance(value, bool) or not isinstance(value, str | int | float | datetime)
    ):
        raise InvalidTypeError(where, f"must be a number, a str or a datetime, not {kind_of(value)}")
    if operator in _ORDERED and len(path) > 1 and isinstance(value, datetime):
        return _check_moment(value, where)
    if value is None and len(path) == 1:
        raise InvalidTypeError(where, "must be a dict, not None")
    return None if value is None and operator in _EQUAL else _json_text(path, value)


def _json_text(path: Path, value: object) -> JsonText:
    *outer, key = path
    if outer:
        plain = decode_metadata(encode_metadata({str(key): value}, place(tuple(outer))))[str(key)]
    else:
        plain = decode_metadata(encode_metadata(value, place(path)))
    return JsonText(json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":")))
