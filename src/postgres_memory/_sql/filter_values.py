"""The values of a filter: bound by number, and never part of a statement or of its shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import cast
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql.elements import ColumnElement

from .._filter_fields import Operator
from .parameters import json_parameter, once, text_parameter, texts_parameter

#: How operators that compare by order are spelt.
COMPARE = {Operator.LT: "<", Operator.LE: "<=", Operator.GT: ">", Operator.GE: ">="}

_WILDCARDS = str.maketrans({character: f"\\{character}" for character in "\\%_"})


@dataclass(slots=True)
class Values:
    """The values of a filter, numbered in the order in which its conditions stand."""

    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, *values: Any) -> int:
        """Keep the values and return the number of the first."""
        first = len(self.parameters)
        for number, value in enumerate(values, first):
            self.parameters[parameter_name(number)] = value
        return first


def parameter_name(number: int) -> str:
    """Return the name of the parameter of a number."""
    return f"filter_{number}"


def like_pattern(operator: Operator, text: str) -> str:
    """Return the pattern by which LIKE finds ``text`` at the start, at the end or anywhere."""
    before = "" if operator is Operator.STARTS_WITH else "%"
    after = "" if operator is Operator.ENDS_WITH else "%"
    return f"{before}{text.translate(_WILDCARDS)}{after}"


def is_like(text: ColumnElement[str], operator: Operator, number: int) -> ColumnElement[bool]:
    """Say that a text is like a pattern. LIKE and ILIKE, and not functions, as an index on trigrams serves them."""
    sign = "ILIKE" if operator is Operator.ICONTAINS else "LIKE"
    return text.op(sign, is_comparison=True)(text_parameter(parameter_name(number)))


def json_value(number: int) -> ColumnElement[Any]:
    """Return a parameter of JSON text as jsonb, converted once per statement."""
    return once(json_parameter(parameter_name(number)))


def json_values(number: int) -> ColumnElement[Any]:
    """Return a parameter of many JSON texts as jsonb[], converted once per statement.

    The cast around the subquery is none to PostgreSQL; but ANY (SELECT …) would be the other ANY, over rows.
    """
    converted = once(cast(texts_parameter(parameter_name(number)), ARRAY(JSONB)))
    return cast(converted, ARRAY(JSONB))


def in_c_order(text: ColumnElement[str]) -> ColumnElement[str]:
    """Order texts by their characters, which is how Python compares them."""
    return text.collate("C")


def are_scalars(texts: Iterable[str]) -> bool:
    """Tell whether no JSON text is of a list or dict: containing such a value is being equal to it."""
    return not any(text.startswith(("{", "[")) for text in texts)
