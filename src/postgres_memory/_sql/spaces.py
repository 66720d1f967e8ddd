"""Statements on embedding spaces themselves."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    ScalarSelect,
    Select,
    Update,
    UpdateBase,
    and_,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from .embeddings import given_space
from .parameters import boolean_parameter, number_parameter, text_parameter
from .repeating import repeatable
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


def get_active_space(tables: Tables) -> Select[Any]:
    """Return one row: the name of the namespace's active space, null if there is none."""
    return select(active_space(tables).label("name"))


def readable_space(tables: Tables) -> ScalarSelect[Any]:
    """Return ``space``, whose embedder the caller has, if it is there to be searched; null while it is being filled.

    It is null as well if its vectors are not of ``dimensions``: what would be compared with them is another model's. A
    retired space is searched as well, by those that have not got the new embedder yet.
    """
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.name)
        .where(
            is_space(tables),
            spaces.c.status != literal_column("'filling'"),
            spaces.c.dimensions == number_parameter("dimensions"),
        )
        .scalar_subquery()
    )


def get_space(tables: Tables) -> Select[Any]:
    """Return one space by name."""
    spaces = tables.embedding_spaces
    return select(spaces.c.name, spaces.c.dimensions, spaces.c.distance, spaces.c.status).where(
        is_space(tables)
    )


@repeatable
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


def hold_space(tables: Tables) -> Select[Any]:
    """Return ``space`` if it is there with so many dimensions, and keep it from being dropped."""
    return select(given_space(tables).c.name)


def set_status(tables: Tables, status: str) -> Update:
    """Give ``space`` a status."""
    return (
        update(tables.embedding_spaces).where(is_space(tables)).values(status=literal_column(f"'{status}'"))
    )


def retire_active(tables: Tables) -> Update:
    """Retire the active space of a namespace, if that is another one than ``space``."""
    spaces = tables.embedding_spaces
    return (
        update(spaces)
        .where(
            spaces.c.namespace == text_parameter("namespace"),
            spaces.c.name != text_parameter("space"),
            spaces.c.status == literal_column("'active'"),
        )
        .values(status=literal_column("'retired'"))
    )


@repeatable
def begin_dropping(tables: Tables) -> Update:
    """Have nobody search ``space`` any more, unless it is the active one; return its name."""
    spaces = tables.embedding_spaces
    return (
        update(spaces)
        .where(is_space(tables), spaces.c.status != literal_column("'active'"))
        .values(status=literal_column("'filling'"))
        .returning(spaces.c.name)
    )


@repeatable
def delete_embeddings(tables: Tables) -> Select[Any]:
    """Delete up to ``limit`` embeddings behind ``after`` of a space being filled; return how many, and the last."""
    table, spaces = tables.memory_embeddings, tables.embedding_spaces
    inactive: Select[Any] = select(literal_column("1")).where(
        is_space(tables), spaces.c.status == literal_column("'filling'")
    )
    mine = and_(table.c.namespace == text_parameter("namespace"), table.c.space == text_parameter("space"))
    some = (
        select(table.c.seq)
        .where(mine, table.c.seq > number_parameter("after"), inactive.exists())
        .order_by(table.c.seq)
        .limit(number_parameter("limit"))
        .cte("some")
    )
    seqs = func.array(select(some.c.seq).scalar_subquery())
    deleted = delete(table).where(mine, table.c.seq == func.any(seqs)).returning(table.c.seq).cte("deleted")
    columns: list[ColumnElement[Any]] = [func.count().label("count"), func.max(deleted.c.seq).label("last")]
    return select(*columns).select_from(deleted)


def lock_space(tables: Tables) -> Select[Any]:
    """Return the status of ``space``; who writes vectors into it waits."""
    return select(tables.embedding_spaces.c.status).where(is_space(tables)).with_for_update()


def delete_rest(tables: Tables) -> UpdateBase:
    """Delete every embedding of ``space``; return what they were of."""
    table = tables.memory_embeddings
    mine = and_(table.c.namespace == text_parameter("namespace"), table.c.space == text_parameter("space"))
    return delete(table).where(mine).returning(table.c.seq)


def delete_space(tables: Tables) -> Delete:
    """Delete ``space``, which holds nothing any more."""
    return delete(tables.embedding_spaces).where(is_space(tables))
