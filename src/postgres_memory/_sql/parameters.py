"""Typed parameters, each bound as a type of PostgreSQL's own and cast to what the column needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Cast,
    DateTime,
    Double,
    Integer,
    Interval,
    LargeBinary,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import ColumnElement

from .schema import Tables


def text_parameter(name: str) -> BindParameter[str]:
    """Return a text parameter."""
    return bindparam(name, type_=Text())


def number_parameter(name: str) -> BindParameter[int]:
    """Return a bigint parameter."""
    return bindparam(name, type_=BigInteger())


def json_parameter(name: str) -> Cast[Any]:
    """Return a parameter of JSON text, as jsonb."""
    return cast(bindparam(name, type_=Text()), JSONB())


def counts_parameter(name: str, tables: Tables) -> Cast[Any]:
    """Return a parameter of shingle counts (a list of int), as a vector."""
    return cast(bindparam(name, type_=ARRAY(Integer())), tables.vector())


def spelt_counts_parameter(name: str, tables: Tables) -> Cast[Any]:
    """Return a parameter of shingle counts as text, as a vector.

    The driver looks at each element of a list whether it is a list as well, which takes longer than all else it does.
    """
    return cast(bindparam(name, type_=Text()), tables.vector())


def once(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return ``expression`` as a scalar subquery, which PostgreSQL evaluates once per statement, not per row.

    A generic plan does not fold a cast parameter, and would convert the query vector again for every memory.
    """
    return select(expression).scalar_subquery()


def apart_from_planning(statement: Select[Any]) -> Select[Any]:
    """Return ``statement`` with its parameters as scalar subqueries, so that what they are is no matter of planning.

    PostgreSQL plans a prepared statement anew for each execution unless the plan for any parameters is estimated to be
    as good. Where every access path is laid down anyway, planning is a third of the work: this has both estimated the
    same. Numbers with a fraction are weights, which no estimate depends on, and stay as they are.
    """

    def hide(element: Any, **_: Any) -> Any:
        matters = isinstance(element, BindParameter) and not isinstance(element.type, Double)
        return select(element).scalar_subquery() if matters else None

    hidden = visitors.replacement_traverse(statement, {}, hide)
    assert isinstance(hidden, Select)
    return hidden


def expected_of(limit: int) -> int | None:
    """Return a number that ``limit`` does not exceed, one of few; None for what no statement should expect.

    Written into a statement as a first LIMIT, it lets the server know about how much is asked for without a look at the
    parameter, for which it would plan anew each time.
    """
    return next((bound for bound in (16, 64, 256, 1_024, 4_096, 16_384) if limit <= bound), None)


def boolean_parameter(name: str) -> BindParameter[bool]:
    """Return a boolean parameter."""
    return bindparam(name, type_=Boolean())


def bytes_parameter(name: str) -> BindParameter[bytes]:
    """Return a bytea parameter."""
    return bindparam(name, type_=LargeBinary())


def float_parameter(name: str) -> BindParameter[float]:
    """Return a double precision parameter."""
    return bindparam(name, type_=Double())


def seconds(duration: ColumnElement[float]) -> ColumnElement[timedelta]:
    """Return an interval of so many seconds."""
    zero: ColumnElement[int] = literal_column("0")
    return func.make_interval(zero, zero, zero, zero, zero, zero, duration, type_=Interval)


def time_parameter(name: str) -> BindParameter[datetime]:
    """Return a timestamptz parameter."""
    return bindparam(name, type_=DateTime(timezone=True))


def texts_parameter(name: str) -> BindParameter[Sequence[str]]:
    """Return a text[] parameter."""
    return bindparam(name, type_=ARRAY(Text()))


def bytes_array_parameter(name: str) -> BindParameter[Sequence[bytes]]:
    """Return a bytea[] parameter."""
    return bindparam(name, type_=ARRAY(LargeBinary()))


def numbers_parameter(name: str) -> BindParameter[Sequence[int]]:
    """Return a bigint[] parameter."""
    return bindparam(name, type_=ARRAY(BigInteger()))


def floats_parameter(name: str) -> BindParameter[Sequence[float]]:
    """Return a double precision[] parameter."""
    return bindparam(name, type_=ARRAY(Double()))


def booleans_parameter(name: str) -> BindParameter[Sequence[bool]]:
    """Return a boolean[] parameter."""
    return bindparam(name, type_=ARRAY(Boolean()))
