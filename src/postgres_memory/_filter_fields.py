"""What each field of a record can be compared with: operators, the check of a value, and how JSON spells it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Any

from ._json import MAX_METADATA_DEPTH, decode_metadata, encode_metadata
from ._record_checks import check_enum, check_time
from ._validation import check_text, kind_of
from .errors import InvalidTypeError, InvalidValueError
from .records import MemoryStatus, MemoryType

_MIN_BIGINT, _MAX_BIGINT = -(2**63), 2**63 - 1


class Operator(StrEnum):
    """What a condition asks of a field. The others are made of these: ``!=`` is a not, ``between`` two of them."""

    EQ = "eq"
    IN = "in"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    HAS_ANY = "has_any"
    HAS_ALL = "has_all"


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value of metadata as JSON text, the keys of its objects sorted: hashable, and 1 is not True."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How one field is compared. ``from_json`` reads what JSON has no type for."""

    check: Callable[[object, str], Any]
    operators: frozenset[Operator]
    nullable: bool = False
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
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidValueError(where, "must be a time in ISO 8601, such as 2030-01-31T12:00:00Z") from None


_EQUAL = frozenset({Operator.EQ, Operator.IN})
_ORDERED = _EQUAL | {Operator.LT, Operator.LE, Operator.GT, Operator.GE}
_SEVERAL = frozenset({Operator.IN, Operator.HAS_ANY, Operator.HAS_ALL})

_TEXT = FieldRule(check_text, _ORDERED)
_NULLABLE_TEXT = FieldRule(check_text, _ORDERED, nullable=True)
_NUMBER = FieldRule(_check_number, _ORDERED)
_TIME = FieldRule(_check_moment, _ORDERED, from_json=_time_from_json)

FIELD_RULES = {
    "id": _TEXT,
    "thread_id": _NULLABLE_TEXT,
    "session_id": _NULLABLE_TEXT,
    "supersedes": _NULLABLE_TEXT,
    "owner": _TEXT,
    "memory_type": FieldRule(lambda value, where: check_enum(value, MemoryType, where).value, _EQUAL),
    "status": FieldRule(lambda value, where: check_enum(value, MemoryStatus, where).value, _EQUAL),
    "importance": _NUMBER,
    "confidence": _NUMBER,
    "version": FieldRule(_check_integer, _ORDERED),
    "created_at": _TIME,
    "updated_at": _TIME,
    "expires_at": FieldRule(_check_moment, _ORDERED, nullable=True, from_json=_time_from_json),
    "tags": FieldRule(check_text, frozenset({Operator.HAS_ANY, Operator.HAS_ALL})),
    # Its values are checked together with the keys that lead to them.
    "metadata": FieldRule(lambda value, _: value, _EQUAL, nullable=True),
}


def check_path(path: object) -> tuple[str, ...]:
    """Return the name of a field, and for metadata the keys inside it, if there can be such a field."""
    if not isinstance(path, tuple) or not path:
        raise InvalidTypeError("filter", f"the path to a field must be a tuple of str, not {kind_of(path)}")
    name, *keys = (check_text(part, "filter") for part in path)
    if name not in FIELD_RULES:
        known = ", ".join(sorted(FIELD_RULES))
        raise InvalidValueError(
            "filter", f"there is no field {name[:80]!r}; there are {known} (and metadata.KEY)"
        )
    if keys and name != "metadata":
        raise InvalidValueError(place((name,)), "has no keys inside it; only metadata has")
    if len(keys) > MAX_METADATA_DEPTH:
        raise InvalidValueError(place((name,)), f"has no more than {MAX_METADATA_DEPTH} levels of keys")
    return (name, *keys)


def place(path: tuple[str, ...]) -> str:
    """Spell where a value stands, as error messages name it: ``filter["metadata"]["topic"]``."""
    return "filter" + "".join(f"[{json.dumps(part, ensure_ascii=False)}]" for part in path)


def check_operator(path: tuple[str, ...], operator: object) -> Operator:
    """Return the operator, if the field has it."""
    found = check_enum(operator, Operator, place(path))
    has = FIELD_RULES[path[0]].operators
    if found not in has:
        raise InvalidValueError(
            place(path), f"cannot be compared by {found}; it has {', '.join(sorted(has))}"
        )
    return found


def check_value(path: tuple[str, ...], operator: Operator, value: object) -> object:
    """Return what the field is compared with, as it is kept: hashable, and a tuple where it is several."""
    where, nullable = place(path), FIELD_RULES[path[0]].nullable
    if operator not in _SEVERAL:
        return _check_one(path, value, where, nullable=nullable and operator is Operator.EQ)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidTypeError(where, f"must be a list of values, not {kind_of(value)}")
    return tuple(
        _check_one(path, one, f"{where}[{position}]", nullable=nullable) for position, one in enumerate(value)
    )


def _check_one(path: tuple[str, ...], value: object, where: str, *, nullable: bool) -> object:
    if value is None and nullable:
        return None
    return _json_text(path, value) if path[0] == "metadata" else FIELD_RULES[path[0]].check(value, where)


def _json_text(path: tuple[str, ...], value: object) -> JsonText:
    *outer, key = path
    if outer:
        plain = decode_metadata(encode_metadata({key: value}, place(tuple(outer))))[key]
    else:
        plain = decode_metadata(encode_metadata(value, place(path)))
    return JsonText(json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":")))
