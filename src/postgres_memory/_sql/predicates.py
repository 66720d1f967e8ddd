"""From a filter to SQL: its shape, which a statement is compiled for, and the values, which are always bound.

A shape holds no value of the caller's: neither what a field is compared with nor a key of metadata. So a statement is
compiled once for all filters that are built alike.

Filters are two-valued, SQL is not: a comparison with null is null. Two steps make up for it. Negations are pushed down
to the conditions (De Morgan), so that above them there are only AND and OR, where null counts as false; and a negated
condition on what may be null is ``IS NOT TRUE``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Text,
    and_,
    bindparam,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY

from .._filter_fields import FIELD_RULES, TEXT_OPERATORS, Operator
from ..filters import And, Condition, Filter, Not, Or, conditions
from .filter_values import COMPARE, Values, in_c_order, is_like, like_pattern, parameter_name
from .metadata_predicates import MetadataLeaf, metadata_condition, metadata_leaves
from .parameters import texts_parameter

Shape = tuple[Hashable, ...]

#: Which memories a statement sees beside its filter: all, the unexpired, or of these the active.
Visibility = Literal["all", "unexpired", "active"]

_ARRAY_SIGNS = {Operator.CONTAINS_ANY: "&&", Operator.CONTAINS_ALL: "@>"}


@dataclass(frozen=True, slots=True)
class PreparedFilter:
    """A filter as `predicate` takes it: its ``shape``, and ``parameters`` by name."""

    shape: Shape
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _FieldLeaf:
    """The shape of a condition on a column, its parameter numbered ``first``.

    ``with_none`` says that None is (among) what the field is compared with.
    """

    field: str
    operator: Operator
    negated: bool
    first: int
    with_none: bool = False


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
    values = Values()
    shape = _shape(filter_, values, negated=False)
    return PreparedFilter(shape, values.parameters)


def predicate(memories: FromClause, shape: Shape) -> ColumnElement[bool]:
    """Return the condition of ``shape`` on ``memories``: the table, an alias of it, or a selection of its columns."""
    kind, *parts = shape
    if kind == "leaf":
        (leaf,) = parts
        if isinstance(leaf, MetadataLeaf):
            return metadata_condition(memories, leaf)
        assert isinstance(leaf, _FieldLeaf)
        return _condition(memories, leaf)
    inner = [predicate(memories, part) for part in parts if isinstance(part, tuple)]
    return and_(true(), *inner) if kind == "and" else or_(false(), *inner)


def _shape(filter_: Filter, values: Values, *, negated: bool) -> Shape:
    match filter_:
        case Not(part=part):
            return _shape(part, values, negated=not negated)
        case And(parts=parts) | Or(parts=parts):
            kind = "and" if isinstance(filter_, And) is not negated else "or"
            return (kind, *(_shape(part, values, negated=negated) for part in parts))
        case Condition(path=("metadata", *_)):
            leaves = metadata_leaves(filter_, values, negated=negated)
            shapes = [("leaf", leaf) for leaf in leaves]
            return shapes[0] if len(shapes) == 1 else ("and" if negated else "or", *shapes)
        case Condition():
            return ("leaf", _field_leaf(filter_, values, negated=negated))
        case _:
            raise TypeError(f"{type(filter_).__name__} is no filter of this package")


def _field_leaf(condition: Condition, values: Values, *, negated: bool) -> _FieldLeaf:
    name, operator, value = str(condition.path[0]), condition.operator, condition.value
    with_none = value is None or (operator is Operator.IN and None in value)
    if operator is Operator.CONTAINS and FIELD_RULES[name].several:
        operator, value = Operator.CONTAINS_ANY, [value]
    elif operator in TEXT_OPERATORS:
        value = like_pattern(operator, value)
    elif isinstance(value, tuple):
        value = [one for one in value if one is not None]
    first = 0 if value is None or operator is Operator.EXISTS else values.bind(value)
    return _FieldLeaf(name, operator, negated, first, with_none)


def _condition(memories: FromClause, leaf: _FieldLeaf) -> ColumnElement[bool]:
    positive = _field(_column(memories, leaf.field), leaf)
    if not leaf.negated:
        return positive
    # NOT lets the planner turn a comparison round and use an index; where null may come out, it would stay null.
    return positive.is_not(true()) if FIELD_RULES[leaf.field].nullable else not_(positive)


def _column(memories: FromClause, name: str) -> ColumnElement[Any]:
    """Return the column of a field. How often a memory was read stands in a table of its own, once it was read."""
    if name not in ("last_accessed", "access_count"):
        column: ColumnElement[Any] = memories.c[name]
        return column
    (stored,) = memories.c.id.base_columns  # of the table itself, whatever it was selected from
    schema = stored.table.metadata
    access = schema.tables[f"{schema.schema}.memory_access"].alias()
    found = (
        select(access.c[name])
        .where(access.c.namespace == memories.c.namespace, access.c.id == memories.c.id)
        .correlate_except(access)
        .scalar_subquery()
    )
    return func.coalesce(found, literal_column("0")) if name == "access_count" else found


def _field(column: ColumnElement[Any], leaf: _FieldLeaf) -> ColumnElement[bool]:
    operator = leaf.operator
    if operator in TEXT_OPERATORS:
        return is_like(column, operator, leaf.first)
    if operator in _ARRAY_SIGNS:
        texts = texts_parameter(parameter_name(leaf.first))
        return column.op(_ARRAY_SIGNS[operator], is_comparison=True)(texts)
    if operator in COMPARE:
        compared = in_c_order(column) if isinstance(column.type, Text) else column
        given = bindparam(parameter_name(leaf.first), type_=column.type)
        return compared.op(COMPARE[operator], is_comparison=True)(given)
    return _equal(column, leaf)


def _equal(column: ColumnElement[Any], leaf: _FieldLeaf) -> ColumnElement[bool]:
    name = parameter_name(leaf.first)
    if leaf.operator is Operator.EXISTS:
        return column.is_not(None)
    if leaf.operator is Operator.EQ:
        return column.is_(None) if leaf.with_none else column == bindparam(name, type_=column.type)
    among = column == func.any(bindparam(name, type_=ARRAY(column.type)))
    return or_(among, column.is_(None)) if leaf.with_none else among
