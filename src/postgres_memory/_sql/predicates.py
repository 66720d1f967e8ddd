"""From a filter to SQL: its shape, which a statement is compiled for, and the values, which are always bound.

A shape holds no value of the caller's: neither what a field is compared with nor a key of metadata. So a statement is
compiled once for all filters that are built alike.

Filters are two-valued, SQL is not: a comparison with null is null. Two steps make up for it. Negations are pushed down
to the conditions (De Morgan), so that above them there are only AND and OR, where null counts as false; and a negated
condition on what may be null is ``IS NOT TRUE``.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from .._filter_fields import FIELD_RULES, JsonText, Operator
from ..filters import And, Condition, Filter, Not, Or, conditions
from .parameters import json_parameter, once, text_parameter, texts_parameter

Shape = tuple[Hashable, ...]

#: Which memories a statement sees beside its filter: all, the unexpired, or of these the active.
Visibility = Literal["all", "unexpired", "active"]

_COMPARE = {Operator.LT: "<", Operator.LE: "<=", Operator.GT: ">", Operator.GE: ">="}


@dataclass(frozen=True, slots=True)
class PreparedFilter:
    """A filter as `predicate` takes it: its ``shape``, and ``parameters`` by name."""

    shape: Shape
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The shape of a condition. Its parameters are numbered from ``first``.

    ``with_none`` says that None is (among) what the field is compared with, ``keys`` how many lead into metadata, and
    ``whole`` that a list or dict is compared.
    """

    field: str
    operator: Operator
    negated: bool
    first: int
    with_none: bool = False
    keys: int = 0
    whole: bool = False


@dataclass(slots=True)
class _Values:
    """The values of a filter, numbered in the order in which its conditions stand."""

    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, *values: Any) -> int:
        first = len(self.parameters)
        for number, value in enumerate(values, first):
            self.parameters[_name(number)] = value
        return first


def visibility_of(filter_: Filter, *, include_inactive: bool) -> Visibility:
    """Return what is seen: everything if asked for; a filter that speaks of the status decides about it alone."""
    if include_inactive:
        return "all"
    names_status = any(condition.path[0] == "status" for condition in conditions(filter_))
    return "unexpired" if names_status else "active"


def visible(memories: FromClause, visibility: Visibility) -> ColumnElement[bool]:
    """Say which memories are seen, by the database's clock."""
    if visibility == "all":
        return true()
    unexpired = or_(memories.c.expires_at.is_(None), memories.c.expires_at > func.statement_timestamp())
    if visibility == "unexpired":
        return unexpired
    return and_(memories.c.status == literal_column("'active'"), unexpired)


def prepare_filter(filter_: Filter) -> PreparedFilter:
    """Take the values out of a filter."""
    values = _Values()
    shape = _shape(filter_, values, negated=False)
    return PreparedFilter(shape, values.parameters)


def predicate(memories: FromClause, shape: Shape) -> ColumnElement[bool]:
    """Return the condition of ``shape`` on ``memories``: the table, or something with its columns."""
    kind, *parts = shape
    if kind == "leaf":
        (leaf,) = parts
        assert isinstance(leaf, _Leaf)
        return _condition(memories, leaf)
    inner = [predicate(memories, part) for part in parts if isinstance(part, tuple)]
    return and_(true(), *inner) if kind == "and" else or_(false(), *inner)


def _name(number: int) -> str:
    return f"filter_{number}"


def _shape(filter_: Filter, values: _Values, *, negated: bool) -> Shape:
    match filter_:
        case Not(part=part):
            return _shape(part, values, negated=not negated)
        case And(parts=parts) | Or(parts=parts):
            kind = "and" if isinstance(filter_, And) is not negated else "or"
            return (kind, *(_shape(part, values, negated=negated) for part in parts))
        case Condition(path=("metadata", *keys)):
            return ("leaf", _metadata_leaf(filter_, keys, values, negated=negated))
        case Condition():
            return ("leaf", _field_leaf(filter_, values, negated=negated))
        case _:
            raise TypeError(f"{type(filter_).__name__} is no filter of this package")


def _field_leaf(condition: Condition, values: _Values, *, negated: bool) -> _Leaf:
    name, operator, value = condition.path[0], condition.operator, condition.value
    with_none = value is None or (operator is Operator.IN and None in value)
    if operator is Operator.IN:
        value = [one for one in value if one is not None]
    first = 0 if value is None else values.bind(value)
    return _Leaf(name, operator, negated, first, with_none)


def _metadata_leaf(condition: Condition, keys: list[str], values: _Values, *, negated: bool) -> _Leaf:
    operator, value = condition.operator, condition.value
    several: tuple[JsonText | None, ...] = value if operator is Operator.IN else (value,)
    texts = [one.text for one in several if one is not None]
    with_none = len(texts) < len(several) or "null" in texts
    if operator is Operator.IN:
        first = values.bind(f"[{','.join(texts)}]", *keys)
        return _Leaf("metadata", operator, negated, first, with_none, len(keys))
    if with_none:
        return _Leaf("metadata", operator, negated, values.bind(None, *keys), True, len(keys))
    # What must be contained, as an index on the whole of metadata answers it.
    (text,) = texts
    opened = "".join(f"{{{json.dumps(key, ensure_ascii=False)}:" for key in keys)
    nested = f"{opened}{text}{'}' * len(keys)}"
    whole = text.startswith(("{", "["))
    first = values.bind(nested, *(keys if whole else ()))
    return _Leaf("metadata", operator, negated, first, False, len(keys), whole)


def _condition(memories: FromClause, leaf: _Leaf) -> ColumnElement[bool]:
    positive = _metadata(memories, leaf) if leaf.field == "metadata" else _field(memories, leaf)
    if not leaf.negated:
        return positive
    # NOT lets the planner turn a comparison round and use an index; where null may come out, it would stay null.
    return positive.is_not(true()) if FIELD_RULES[leaf.field].nullable else not_(positive)


def _field(memories: FromClause, leaf: _Leaf) -> ColumnElement[bool]:
    column, name = memories.c[leaf.field], _name(leaf.first)
    match leaf.operator:
        case Operator.HAS_ANY:
            return column.op("&&", is_comparison=True)(texts_parameter(name))
        case Operator.HAS_ALL:
            return column.op("@>", is_comparison=True)(texts_parameter(name))
        case Operator.EQ if leaf.with_none:
            return column.is_(None)
        case Operator.EQ:
            return column == bindparam(name, type_=column.type)
        case Operator.IN:
            among = column == func.any(bindparam(name, type_=ARRAY(column.type)))
            return or_(among, column.is_(None)) if leaf.with_none else among
        case operator:
            # Texts in the order of their characters, which is the one Python compares them in.
            compared = column.collate("C") if isinstance(column.type, Text) else column
            sign = compared.op(_COMPARE[operator], is_comparison=True)
            return sign(bindparam(name, type_=column.type))


def _metadata(memories: FromClause, leaf: _Leaf) -> ColumnElement[bool]:
    """Compare a value inside metadata. A key that is missing counts as None, as ``dict.get`` has it."""
    metadata: ColumnElement[Any] = memories.c.metadata
    given = once(json_parameter(_name(leaf.first)))
    if leaf.operator is Operator.EQ and not leaf.with_none:
        contained = metadata.op("@>", is_comparison=True)(given)
        # Containing is being equal for a str, number or bool, not for a list or dict.
        return (
            and_(contained, _inside(metadata, leaf) == once(_inside(given, leaf)))
            if leaf.whole
            else contained
        )
    value = _inside(metadata, leaf)
    if not leaf.with_none:
        return value.in_(_elements(given))
    none = or_(value.is_(None), value == literal_column("'null'::jsonb", JSONB))
    if leaf.operator is Operator.EQ:
        return none
    return or_(none, value.in_(_elements(given)))


def _elements(array: ColumnElement[Any]) -> Select[Any]:
    return select(func.jsonb_array_elements(array))


def _inside(document: ColumnElement[Any], leaf: _Leaf) -> ColumnElement[Any]:
    """Follow the keys of objects. ``#>`` would take a key such as "0" into a list as well, which ``->`` does not."""
    found = document
    for number in range(leaf.first + 1, leaf.first + 1 + leaf.keys):
        found = found.op("->", return_type=JSONB())(cast(text_parameter(_name(number)), Text))
    return found
