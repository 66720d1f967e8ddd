"""Statements on embedding spaces themselves."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, case, literal_column, or_, select
from sqlalchemy.dialects.postgresql import Insert, insert

from .parameters import boolean_parameter, number_parameter, text_parameter
from .schema import Tables


def is_space(tables: Tables) -> ColumnElement[bool]:
    """Return the condition for the one space that is named."""
    spaces = tables.embedding_spaces
    return and_(spaces.c.namespace == text_parameter("namespace"), spaces.c.name == text_parameter("space"))


def active_space(tables: Tables) -> ScalarSelect[Any]:
    """Return the name of the namespace's active space, null if there is none."""
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.name)
        .where(
            spaces.c.namespace == text_parameter("namespace"),
            spaces.c.status == literal_column("'active'"),
        )
        .scalar_subquery()
    )


def readable_space(tables: Tables) -> ScalarSelect[Any]:
    """Return ``space``, whose embedder the caller has, if it is there to be searched; null while it is being filled.

    A retired space is searched as well, by those that have not got the new embedder yet.
    """
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.name)
        .where(is_space(tables), spaces.c.status != literal_column("'filling'"))
        .scalar_subquery()
    )


def get_space(tables: Tables) -> Select[Any]:
    """Return one space by name."""
    spaces = tables.embedding_spaces
    return select(spaces.c.name, spaces.c.dimensions, spaces.c.distance, spaces.c.status).where(
        is_space(tables)
    )


def register_space(tables: Tables) -> Insert:
    """Insert a space, unless it is there: active if it is the first of its namespace and not ``filling``."""
    spaces = tables.embedding_spaces
    others: Select[Any] = select(literal_column("1")).where(
        spaces.c.namespace == text_parameter("namespace"), spaces.c.status == literal_column("'active'")
    )
    waits = or_(boolean_parameter("filling"), others.exists())
    row = select(
        text_parameter("namespace"),
        text_parameter("space"),
        number_parameter("dimensions"),
        text_parameter("distance"),
        case((waits, literal_column("'filling'")), else_=literal_column("'active'")),
    )
    names = ["namespace", "name", "dimensions", "distance", "status"]
    statement = insert(spaces).from_select(names, row, include_defaults=False)
    # Whatever the conflict, also that of two that would be active at once: who finds none looks again.
    return statement.on_conflict_do_nothing()
