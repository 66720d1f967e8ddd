"""What filters mean, in plain Python, as somebody who reads them would expect."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from postgres_memory.filters import And, Condition, Filter, JsonText, Not, Operator, Or
from postgres_memory.records import MemoryRecord


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
    name, how, given = str(condition.path[0]), condition.operator, condition.value
    held = record.permissions if name in ("owner", "readers", "writers") else record
    own = getattr(held, name)
    if how is Operator.EQ:
        return bool(own == given)
    if how is Operator.IN:
        return bool(given.count(own))
    return own is not None and _something_holds(how, own, given)


def _something_holds(how: Operator, own: Any, given: Any) -> bool:
    match how:
        case Operator.EXISTS:
            return True
        case Operator.CONTAINS:
            return given in own
        case Operator.CONTAINS_ANY:
            return any(text in own for text in given)
        case Operator.CONTAINS_ALL:
            return all(text in own for text in given)
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return bool(getattr(operator, how)(own, given))
        case _:
            return _text_holds(how, own, given)


def _text_holds(how: Operator, own: str, given: str) -> bool:
    match how:
        case Operator.STARTS_WITH:
            return own.startswith(given)
        case Operator.ENDS_WITH:
            return own.endswith(given)
        case _:
            return given.lower() in own.lower()


_MISSING = object()


def _metadata_holds(condition: Condition, keys: list[Any], found: Any) -> bool:
    for key in keys:
        found = _step(found, key)
    given, how = condition.value, condition.operator
    match how:
        case Operator.EXISTS:
            return found is not _MISSING
        case Operator.EQ:
            return _same(found, given)
        case Operator.IN:
            return any(_same(found, one) for one in given)
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return _in_order(getattr(operator, how), found, given)
        case Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.ICONTAINS:
            return isinstance(found, str) and _text_holds(how, found, given)
        case _:
            return _contains(how, found, given)


def _contains(how: Operator, found: Any, given: Any) -> bool:
    if how is Operator.CONTAINS:
        value = loaded(given)
        within = isinstance(found, str) and isinstance(value, str) and value in found
        return within or (isinstance(found, list) and _among(value, found))
    several = any if how is Operator.CONTAINS_ANY else all
    return isinstance(found, list) and several(_among(loaded(one), found) for one in given)


def _step(found: Any, key: str | int) -> Any:
    if isinstance(key, int) and isinstance(found, list):
        return found[key] if -len(found) <= key < len(found) else _MISSING
    if isinstance(key, str) and isinstance(found, dict):
        return found.get(key, _MISSING)
    return _MISSING


def _same(found: Any, given: JsonText | datetime | None) -> bool:
    if isinstance(given, datetime):
        return as_time(found) == given
    return same_json(None if found is _MISSING else found, loaded(given))


def _among(one: Any, several: list[Any]) -> bool:
    return any(same_json(one, other) for other in several)


def _in_order(compare: Callable[[Any, Any], bool], found: Any, given: JsonText | datetime) -> bool:
    if isinstance(given, datetime):
        own = as_time(found)
        return own is not None and compare(own, given)
    value = loaded(given)
    if isinstance(value, str):
        return isinstance(found, str) and compare(found, value)
    return (
        isinstance(found, int | float) and not isinstance(found, bool) and compare(exact(found), exact(value))
    )


_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


def as_time(found: Any) -> datetime | None:
    """Return the time that a text of metadata stands for, if it does; it is in UTC unless it says otherwise."""
    spelt = _TIME.fullmatch(found) if isinstance(found, str) else None
    if spelt is None:
        return None
    day, clock, offset = spelt.groups()
    try:
        read = datetime.combine(
            date.fromisoformat(day),
            time.fromisoformat(clock or "00:00"),
        )
    except ValueError:
        return None
    away = timedelta(0)
    if offset not in (None, "Z"):
        digits = offset[1:].replace(":", "").ljust(4, "0")
        away = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        if away >= timedelta(hours=16) or int(digits[2:]) > 59:
            return None
        away = -away if offset[0] == "-" else away
    return read.replace(tzinfo=timezone(away))


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
