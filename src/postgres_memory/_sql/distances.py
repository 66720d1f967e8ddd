"""How far the vectors of memories are from the query's: what a statement says to compare those that are asked for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    REAL,
    ColumnElement,
    Double,
    FromClause,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ..embedding.fields import EmbeddedFields
from ..embedding.protocol import Distance
from .embeddings import CONTENT
from .names import quote_text
from .parameters import once, text_parameter
from .schema import Tables
from .space_index import exact_distance
from .spaces import readable_space
from .word_hits import number

#: What does not fit float4 comes as infinity, of which no mean can be taken.
_FARTHEST: ColumnElement[float] = literal_column("1e38::double precision", Double)


def vector_of_query(tables: Tables) -> ColumnElement[Any]:
    return cast(bindparam("query_vector", type_=ARRAY(REAL())), tables.vector())


def distance_to_query(tables: Tables, vectors: FromClause, distance: Distance) -> ColumnElement[float]:
    """Return pgvector's distance, finite; a zero vector has none by cosine, and is as far as can be."""
    found = exact_distance(tables, vectors.c.embedding, once(vector_of_query(tables)), distance)
    known = func.coalesce(func.nullif(found, literal_column("'NaN'::double precision")), number(1))
    return func.least(func.greatest(known, -_FARTHEST), _FARTHEST)


def of_space(
    tables: Tables, vectors: FromClause, fields: EmbeddedFields, *, made: bool = True
) -> ColumnElement[bool]:
    return and_(
        vectors.c.namespace == text_parameter("namespace"),
        vectors.c.space == readable_space(tables),
        is_embedded_field(vectors, fields),
        *((vectors.c.embedding.is_not(None),) if made else ()),
    )


def is_embedded_field(vectors: FromClause, fields: EmbeddedFields) -> ColumnElement[bool]:
    """Say that a vector is of one of the fields; where others embed more, theirs are in the same space."""
    whole: list[ColumnElement[str]] = [CONTENT] if fields.content else []
    whole += [constant(path.head) for path in fields.paths if not path.each]
    conditions = [vectors.c.field == name for name in whole]
    for path in fields.paths:
        if path.each:
            end = f"]{path.tail}"
            conditions.append(
                and_(
                    func.starts_with(vectors.c.field, constant(f"{path.head}[")),
                    func.right(vectors.c.field, number(len(end))) == constant(end),
                )
            )
    return or_(*conditions)


def constant(text: str) -> ColumnElement[str]:
    """Return a string constant."""
    return literal_column(quote_text(text), Text)
