"""The vector leg: which memories are nearest to the query's vector, and how similar those found are in their threads.

What counts for a memory is the mean of its own similarity and, for less, that of its neighbours in the thread: a short
answer says little by itself. The vectors stored are those of single memories.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    REAL,
    ColumnElement,
    Double,
    FromClause,
    Select,
    and_,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import BigInteger

from .embeddings import CONTENT
from .lexical import divided, number, seen
from .names import quote
from .parameters import number_parameter, once, text_parameter
from .predicates import Shape, predicate
from .schema import Tables
from .spaces import readable_space

#: How much the similarity of a neighbour counts, by how far away it is.
_SHARES = {distance: 1 / (1 + abs(distance)) for distance in range(-4, 5)}

_SIGNS = {"cosine": "<=>", "inner_product": "<#>", "l2": "<->"}


def _distance(tables: Tables, vectors: FromClause, distance: str) -> ColumnElement[float]:
    """Return pgvector's distance; a zero vector has none by cosine, and is as far as can be."""
    query = once(cast(bindparam("query_vector", type_=ARRAY(REAL())), tables.vector()))
    operator = f"OPERATOR({quote(tables.extension_schema)}.{_SIGNS[distance]})"
    found: ColumnElement[float] = vectors.c.embedding.op(operator, precedence=5, return_type=Double())(query)
    return func.coalesce(func.nullif(found, literal_column("'NaN'::double precision")), number(1))


def nearest(tables: Tables, distance: str, shape: Shape) -> CTE:
    """Return the numbers of the memories that match ``shape`` and are nearest, in the space that may be read."""
    vectors, memories = tables.memory_embeddings, tables.memories.alias("candidate")
    matches = select(number(1)).where(
        seen(memories), memories.c.seq == vectors.c.seq, predicate(memories, shape)
    )
    return (
        select(vectors.c.seq)
        .where(_of_space(tables, vectors), matches.exists())
        .order_by(_distance(tables, vectors, distance), vectors.c.seq)
        .limit(number_parameter("nearest"))
        .cte("nearest")
        .prefix_with("MATERIALIZED")
    )


def _of_space(tables: Tables, vectors: FromClause) -> ColumnElement[bool]:
    return and_(
        vectors.c.namespace == text_parameter("namespace"),
        vectors.c.space == readable_space(tables),
        vectors.c.field == CONTENT,
        vectors.c.embedding.is_not(None),
    )


def similarities(tables: Tables, found: CTE, distance: str) -> CTE:
    """Return, for each memory found, its similarity and that of its neighbours, scaled to 0 … 1 among those found."""
    near = _neighbours(found)
    vectors = tables.memory_embeddings.alias("v")
    itself, other = tables.memories.alias("itself"), tables.memories.alias("other_in_thread")

    def looked_up(memories: FromClause, *conditions: ColumnElement[bool]) -> Select[Any]:
        joined = memories.join(
            vectors, and_(vectors.c.namespace == memories.c.namespace, vectors.c.seq == memories.c.seq)
        )
        found_distance = _distance(tables, vectors, distance).label("distance")
        return (
            select(found_distance)
            .select_from(joined)
            .where(seen(memories), _of_space(tables, vectors), *conditions)
        )

    one = union_all(
        looked_up(itself, near.c.step == number(0), itself.c.seq == near.c.seq),
        looked_up(
            other,
            near.c.step != number(0),
            near.c.place > number(0),
            other.c.place == near.c.place + near.c.step,
        ),
    ).lateral("one")
    mean = (
        select(
            near.c.seq,
            divided(func.sum(near.c.share * -one.c.distance), func.sum(near.c.share)).label("similarity"),
        )
        .select_from(near.join(one, true()))
        .group_by(near.c.seq)
        .subquery("mean")
    )
    low, high = func.min(mean.c.similarity).over(), func.max(mean.c.similarity).over()
    scaled = divided(mean.c.similarity - low, func.nullif(high - low, number(0)))
    return select(mean.c.seq, func.coalesce(scaled, number(1)).label("scaled")).cte("similar")


def _neighbours(found: CTE) -> Any:
    steps = ", ".join(map(str, _SHARES))
    shares = ", ".join(map(str, _SHARES.values()))
    window = (
        func.unnest(
            literal_column(f"ARRAY[{steps}]::bigint[]"),
            literal_column(f"ARRAY[{shares}]::double precision[]"),
        )
        .table_valued(column("step", BigInteger), column("share", Double), name="around")
        .render_derived()
    )
    return (
        select(found.c.seq, found.c.place, window.c.step, window.c.share)
        .select_from(found.join(window, true()))
        .subquery("near_by")
    )
