"""The parts of statements that write embeddings beside the memories they belong to.

A vector belongs to one content. A statement that changes a content writes into every space of the namespace: the new
vector into the space it is given for, NULL into the others. It does so by INSERT … ON CONFLICT, which meets rows that
others committed while the statement waited for its memory; a DELETE would not see them and leave a vector that is not
the content's. Whoever embeds later locks the memory against that; see _sql/pending.py.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    REAL,
    Cast,
    ColumnElement,
    FromClause,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    case,
    cast,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from .parameters import number_parameter, text_parameter
from .schema import Tables

COLUMNS = ("namespace", "space", "field", "seq", "embedding")
#: The field of a memory that is its content.
CONTENT: ColumnElement[str] = literal_column("''")


def vector_parameter(tables: Tables) -> Cast[Any]:
    """Return the parameter ``vector``, a list of float, as a vector."""
    return cast(bindparam("vector", type_=ARRAY(REAL())), tables.vector())


def given_space(tables: Tables) -> CTE:
    """Hold the space that vectors are given for against being dropped, if it is there with so many dimensions."""
    return space_held(tables).cte("given_space")


def space_held(tables: Tables) -> Select[Any]:
    """Select the space that vectors are given for and hold it against being dropped, as `given_space`."""
    return _held(_of_namespace(tables).where(_is_given(tables.embedding_spaces)))


def given_name(tables: Tables) -> ScalarSelect[Any]:
    """Return the name of that space, null if it is not there."""
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.name)
        .where(spaces.c.namespace == text_parameter("namespace"), _is_given(spaces))
        .scalar_subquery()
    )


def embedded_new(tables: Tables, stored: CTE) -> CTE:
    """Insert the vector of a memory that is ``stored`` just now."""
    space = given_space(tables)
    rows = select(
        stored.c.namespace, space.c.name, CONTENT, stored.c.seq, vector_parameter(tables)
    ).select_from(stored.join(space, true()))
    table = tables.memory_embeddings
    statement = insert(table).from_select(list(COLUMNS), rows, include_defaults=False)
    return statement.returning(table.c.seq).cte("embedded")


def embedded_again(
    tables: Tables,
    changed: CTE,
    vector: ColumnElement[Any] | None = None,
    is_new: ColumnElement[bool] | None = None,
) -> CTE:
    """Give each of the ``changed`` memories its new vector, and none in the spaces that nobody embedded it for.

    ``is_new`` says of a memory that it was not there before, so that nothing is to be taken from it.
    """
    spaces = _held(_of_namespace(tables)).cte("spaces")
    value = vector_parameter(tables) if vector is None else cast(vector, tables.vector())
    embedding = case((_is_given(spaces), value))
    rows = select(changed.c.namespace, spaces.c.name, CONTENT, changed.c.seq, embedding).select_from(
        changed.join(spaces, true())
    )
    if is_new is not None:
        rows = rows.where(or_(~is_new, spaces.c.name == text_parameter("space")))
    table = tables.memory_embeddings
    statement = insert(table).from_select(list(COLUMNS), rows, include_defaults=False)
    return overwriting(tables, statement).returning(table.c.seq).cte("embedded")


def overwriting(tables: Tables, statement: Insert) -> Insert:
    """Return an insertion that replaces the embeddings there are."""
    table = tables.memory_embeddings
    return statement.on_conflict_do_update(
        index_elements=[table.c[name] for name in ("namespace", "seq", "space", "field")],
        set_={"embedding": statement.excluded.embedding},
    )


def _of_namespace(tables: Tables) -> Select[Any]:
    spaces = tables.embedding_spaces
    return select(spaces.c.name, spaces.c.dimensions).where(spaces.c.namespace == text_parameter("namespace"))


def _is_given(spaces: FromClause) -> ColumnElement[bool]:
    return and_(
        spaces.c.name == text_parameter("space"), spaces.c.dimensions == number_parameter("dimensions")
    )


def _held(spaces: Select[Any]) -> Select[Any]:
    return spaces.with_for_update(read=True, key_share=True)
