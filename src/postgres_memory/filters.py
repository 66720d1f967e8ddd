"""The caller's conditions on memories, as data: an expression tree that never changes, and its dict form.

::

    field("importance") >= 0.5
    (field("memory_type") == "persistent") & ~field("tags").contains_any(["draft"])
    field("metadata", "topic").is_in(["tea", "coffee"])

    {"importance": {"$gte": 0.5}, "metadata.topic": {"$in": ["tea", "coffee"]}}

Every value is checked when a condition is made, so that one that exists can run. A condition is either true or false,
also on a field that is None: ``field("thread_id") != "a"`` is true for a memory without a thread, and
``field("thread_id") < "a"`` is false for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._filter_fields import (
    MAX_FILTER_VALUES,
    TEXT_OPERATORS,
    JsonText,
    Operator,
    Path,
    check_operator,
    check_path,
    check_value,
    place,
    rule_of,
)
from ._validation import kind_of
from .errors import InvalidTypeError, InvalidValueError

__all__ = [
    "MAX_FILTER_DEPTH",
    "MAX_FILTER_SIZE",
    "MAX_FILTER_VALUES",
    "And",
    "Condition",
    "Field",
    "Filter",
    "JsonText",
    "Not",
    "Operator",
    "Or",
    "check_filter",
    "conditions",
    "constant_truth",
    "field",
]

MAX_FILTER_DEPTH = 32
"""How deep and, or and not may be nested in each other."""

MAX_FILTER_SIZE = 1000
"""How many conditions, metadata keys and joins a filter may hold, together."""


class Filter:
    """A condition on memories: a `Condition`, or several joined by ``&``, ``|`` and ``~``.

    Filters are equal if they are built the same. They have no truth value, so that ``and``, ``or``, ``not`` and chained
    comparisons, which Python cannot hand to them, are errors.
    """

    __slots__ = ()

    def __and__(self, other: Filter | Mapping[str, Any]) -> Filter:
        return And((self, other))

    def __rand__(self, other: Mapping[str, Any]) -> Filter:
        return And((other, self))

    def __or__(self, other: Filter | Mapping[str, Any]) -> Filter:
        return Or((self, other))

    def __ror__(self, other: Mapping[str, Any]) -> Filter:
        return Or((other, self))

    def __invert__(self) -> Filter:
        return Not(self)

    def __bool__(self) -> bool:
        raise InvalidTypeError(
            "filter", "has no truth value; join filters with &, | and ~, and use between() for a range"
        )

    @staticmethod
    def from_dict(value: Mapping[str, Any]) -> Filter:
        """Return the filter that a dict describes, such as a model or a JSON API sends it.

        Every key is a field with a value or with operators (``{"importance": {"$gte": 0.5}}``), or ``$and``, ``$or``
        (lists of such dicts) or ``$not`` (one); what stands beside each other must all hold. Operators: ``$eq``,
        ``$ne``, ``$in``, ``$nin``, ``$lt``, ``$lte``, ``$gt``, ``$gte``, ``$between``, ``$exists``, ``$startsWith``,
        ``$endsWith``, ``$contains``, ``$icontains``, ``$containsAny``, ``$containsAll``, and ``$not`` of these.
        Metadata is reached as ``"metadata.topic"``, as ``{"metadata": {"topic": …}}`` or, whatever its keys are, as
        ``{"metadata": {"$path": ["topics", 0], …}}``. Times may be ISO 8601 texts; to compare what metadata holds as
        a time, write ``{"$date": …}``. An empty dict matches every memory.

        Raises InvalidTypeError or InvalidValueError for an unknown field or operator or a value of the wrong type.
        """
        return _as_filter(value, "filter")


@dataclass(frozen=True, slots=True)
class Condition(Filter):
    """One field compared with a value. ``path`` is the field's name; after ``metadata`` come the keys inside it.

    ``value`` is kept as it is compared: a str for enums, an aware datetime in UTC, a tuple for several, JsonText for
    metadata, True for ``exists``.
    """

    path: Path
    operator: Operator
    value: Any

    def __post_init__(self) -> None:
        _set(self, "path", check_path(self.path))
        _set(self, "operator", check_operator(self.path, self.operator))
        if isinstance(self.value, Field | Filter):
            raise InvalidTypeError(
                place(self.path), "must be a value; fields cannot be compared with each other"
            )
        _set(self, "value", check_value(self.path, self.operator, self.value))


@dataclass(frozen=True, slots=True)
class And(Filter):
    """All of ``parts`` hold; always true if there are none. Filters inside it that are And too are taken apart."""

    parts: tuple[Filter, ...] = ()

    def __init__(self, parts: Iterable[Filter | Mapping[str, Any]] = ()) -> None:
        _set(self, "parts", _flat(And, parts))


@dataclass(frozen=True, slots=True)
class Or(Filter):
    """One of ``parts`` holds; never true if there are none. Filters inside it that are Or too are taken apart."""

    parts: tuple[Filter, ...] = ()

    def __init__(self, parts: Iterable[Filter | Mapping[str, Any]] = ()) -> None:
        _set(self, "parts", _flat(Or, parts))


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """``part`` does not hold."""

    part: Filter

    def __post_init__(self) -> None:
        _set(self, "part", _as_filter(self.part, "filter"))

    def __invert__(self) -> Filter:
        return self.part


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of the record, to be compared: every comparison gives a Filter. Made by `field`."""

    path: Path

    # Typed as Any, because object says that comparing for equality gives a bool.
    def __eq__(self, value: object) -> Any:
        return Condition(self.path, Operator.EQ, value)

    def __hash__(self) -> int:
        return hash(self.path)

    def __ne__(self, value: object) -> Any:
        return Not(Condition(self.path, Operator.EQ, value))

    def __lt__(self, value: object) -> Filter:
        return Condition(self.path, Operator.LT, value)

    def __le__(self, value: object) -> Filter:
        return Condition(self.path, Operator.LE, value)

    def __gt__(self, value: object) -> Filter:
        return Condition(self.path, Operator.GT, value)

    def __ge__(self, value: object) -> Filter:
        return Condition(self.path, Operator.GE, value)

    def __bool__(self) -> bool:
        raise InvalidTypeError(place(self.path), "is a field, not a condition; compare it with something")

    def is_none(self) -> Filter:
        """The field is None; of metadata: the key is missing or its value is None."""
        return Condition(self.path, Operator.EQ, None)

    def is_in(self, values: Iterable[object]) -> Filter:
        """The field equals one of ``values``; never true if there are none."""
        return Condition(self.path, Operator.IN, values)

    def not_in(self, values: Iterable[object]) -> Filter:
        """The field equals none of ``values``."""
        return Not(self.is_in(values))

    def between(self, low: object, high: object) -> Filter:
        """The field is from ``low`` to ``high``, both included."""
        return And((self >= low, self <= high))

    def exists(self) -> Filter:
        """The field is not None; of metadata: the key is there, even if its value is None."""
        return Condition(self.path, Operator.EXISTS, True)

    def starts_with(self, text: str) -> Filter:
        """The field is a text that begins with ``text``, character by character; nothing in it is a wildcard."""
        return Condition(self.path, Operator.STARTS_WITH, text)

    def ends_with(self, text: str) -> Filter:
        """The field is a text that ends with ``text``."""
        return Condition(self.path, Operator.ENDS_WITH, text)

    def contains(self, value: object) -> Filter:
        """``value`` is part of the text, or one of the texts or values that the field holds, like Python's ``in``."""
        return Condition(self.path, Operator.CONTAINS, value)

    def icontains(self, text: str) -> Filter:
        """``text`` is part of the text, whether in capitals or not, as the database's ILIKE tells them."""
        return Condition(self.path, Operator.ICONTAINS, text)

    def contains_any(self, values: Iterable[object]) -> Filter:
        """The field is a list that holds at least one of ``values``; never true if there are none."""
        return Condition(self.path, Operator.CONTAINS_ANY, values)

    def contains_all(self, values: Iterable[object]) -> Filter:
        """The field is a list that holds every one of ``values``; true of every list if there are none."""
        return Condition(self.path, Operator.CONTAINS_ALL, values)


def field(name: str, *keys: str | int) -> Field:
    """Return the field ``name`` of a record; for ``metadata``, ``keys`` lead to a value inside it.

    A str is a key of a dict, whatever its characters; an int is a place in a list, from the end if negative.

    Raises InvalidValueError if there is no such field.
    """
    return Field(check_path((name, *keys)))


def check_filter(value: Filter | Mapping[str, Any] | None, argument: str = "filter") -> Filter:
    """Return ``value`` as a filter within the limits; None, like an empty dict, matches every memory."""
    found = And() if value is None else _as_filter(value, argument)
    size, values, level, depth = 0, 0, [found], 0
    while level:
        depth += 1
        size += sum(len(part.path) if isinstance(part, Condition) else 1 for part in level)
        values += sum(
            len(part.value) for part in level if isinstance(part, Condition) and isinstance(part.value, tuple)
        )
        if depth > MAX_FILTER_DEPTH:
            raise InvalidValueError(argument, f"is nested deeper than {MAX_FILTER_DEPTH}")
        if size > MAX_FILTER_SIZE:
            raise InvalidValueError(
                argument,
                f"must hold at most {MAX_FILTER_SIZE} conditions, metadata keys and joins; is_in() takes many values",
            )
        if values > MAX_FILTER_VALUES:
            raise InvalidValueError(argument, f"must hold at most {MAX_FILTER_VALUES} values in its lists")
        level = [inner for part in level for inner in _parts(part)]
    return found


def conditions(value: Filter) -> Iterator[Condition]:
    """Give every condition of a filter, from left to right."""
    if isinstance(value, Condition):
        yield value
    for part in _parts(value):
        yield from conditions(part)


def constant_truth(value: Filter) -> bool | None:
    """Return True or False for a filter that says so of every memory whatever it holds, None for others.

    That is told from how it is built: an empty And, ``contains_all([])``, a not of something never true, and so on.
    """
    match value:
        case Condition(operator=Operator.IN | Operator.CONTAINS_ANY, value=()):
            return False
        case Condition(path=path):
            return True if _holds_always(value) and not rule_of(path).nullable else None
        case Not(part=part):
            inner = constant_truth(part)
            return None if inner is None else not inner
        case And(parts=parts):
            return _joined([constant_truth(part) for part in parts], neutral=True)
        case Or(parts=parts):
            return _joined([constant_truth(part) for part in parts], neutral=False)
        case _:
            return None


def _holds_always(condition: Condition) -> bool:
    """Tell whether the condition is true of everything the field may hold beside None."""
    if condition.operator in TEXT_OPERATORS:
        return condition.value == "" and not rule_of(condition.path).several
    return condition.operator is Operator.EXISTS or (condition.operator, condition.value) == (
        Operator.CONTAINS_ALL,
        (),
    )


def _joined(parts: list[bool | None], *, neutral: bool) -> bool | None:
    if (not neutral) in parts:
        return not neutral
    return None if None in parts else neutral


def _parts(value: Filter) -> tuple[Filter, ...]:
    match value:
        case And(parts=parts) | Or(parts=parts):
            return parts
        case Not(part=part):
            return (part,)
        case _:
            return ()


def _as_filter(value: object, where: str) -> Filter:
    from ._filter_parsing import parse_filter

    return parse_filter(value, where)


def _flat(kind: type[And | Or], parts: Iterable[Filter | Mapping[str, Any]]) -> tuple[Filter, ...]:
    if isinstance(parts, Filter | Mapping | str) or not isinstance(parts, Iterable):
        raise InvalidTypeError("filter", f"{kind.__name__} takes a list of filters, not {kind_of(parts)}")
    flat: list[Filter] = []
    for position, part in enumerate(parts):
        found = _as_filter(part, f"filter[{position}]")
        flat += found.parts if isinstance(found, kind) else (found,)
    return tuple(flat)


def _set(instance: object, name: str, value: object) -> None:
    """Put the checked value into a frozen object."""
    object.__setattr__(instance, name, value)
