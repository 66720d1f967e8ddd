"""The vector leg: which memories are nearest to the query's vector, and how similar those found are in their threads.

What counts for a memory is the mean of its own similarity and, for less, that of its neighbours in the thread: a short
answer says little by itself. The vectors stored are those of single memories.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Select,
    and_,
    case,
    column,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.types import BigInteger

from ..embedding.protocol import Distance
from .distances import distance_to_query, of_space
from .parameters import float_parameter
from .schema import Tables
from .scoring import RecallShape, of_rank
from .word_hits import divided, number, seen

#: How much the similarity of a neighbour counts, by how far away it is.
_SHARES = {distance: 1 / (1 + abs(distance)) for distance in range(-4, 5)}


def nearest_field(
    tables: Tables, memories: FromClause, shape: RecallShape, distance: Distance
) -> ColumnElement[str]:
    """Return the field of a memory whose vector is nearest to the query's, null if it has none."""
    vectors = tables.memory_embeddings.alias("of_field")
    return (
        select(vectors.c.field)
        .where(of_space(tables, vectors, shape.fields), vectors.c.seq == memories.c.seq)
        .order_by(distance_to_query(tables, vectors, distance), vectors.c.field.collate("C"))
        .limit(number(1))
        .correlate(memories)
        .scalar_subquery()
    )


def similarities(tables: Tables, found: CTE, shape: RecallShape, distance: Distance) -> CTE:
    """Return, for each memory found, the mean of its similarity and that of its neighbours in the thread.

    That of a memory is its best over the fields. ``by_rank``, it is what the rank of the mean is worth.
    """
    near = _neighbours(found)
    vectors = tables.memory_embeddings.alias("v")
    other = tables.memories.alias("other_in_thread")

    def looked_up(source: FromClause, *conditions: ColumnElement[bool]) -> Select[Any]:
        similarity = similarity_of(distance_to_query(tables, vectors, distance), distance)
        several = not shape.fields.are_usual
        found_one = (
            select((func.max(similarity) if several else similarity).label("similarity"))
            .select_from(source)
            .where(of_space(tables, vectors, shape.fields), *conditions)
        )
        return found_one.group_by(vectors.c.seq) if several else found_one

    in_thread = other.join(
        vectors, and_(vectors.c.namespace == other.c.namespace, vectors.c.seq == other.c.seq)
    )
    one = union_all(
        # What was found was seen.
        looked_up(vectors, near.c.step == number(0), vectors.c.seq == near.c.seq),
        looked_up(
            in_thread, seen(other), near.c.step != number(0), other.c.place == near.c.place + near.c.step
        ),
    ).lateral("one")
    mean = (
        select(
            near.c.seq,
            divided(func.sum(near.c.share * one.c.similarity), func.sum(near.c.share)).label("similarity"),
        )
        .select_from(near.join(one, true()))
        .group_by(near.c.seq)
        .subquery("mean")
    )
    worth = (
        of_rank(func.rank().over(order_by=mean.c.similarity.desc())) if shape.by_rank else mean.c.similarity
    )
    return select(mean.c.seq, worth.label("similarity")).cte("similar")


def similarity_of(found: ColumnElement[float], distance: Distance) -> ColumnElement[float]:
    """Return a similarity of 0 or more: cosine, inner product, or for l2 1 at distance 0 and less farther off."""
    if distance == "l2":
        return divided(number(1), number(1) + found)
    return func.greatest(number(1) - found if distance == "cosine" else -found, number(0), type_=Double)


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
    share = case(
        (window.c.step == number(0), window.c.share), else_=window.c.share * float_parameter("around")
    )
    return (
        select(found.c.seq, found.c.place, window.c.step, share.label("share"))
        # Only who is in a thread has neighbours.
        .select_from(found.join(window, or_(window.c.step == number(0), found.c.place > number(0))))
        .subquery("near_by")
    )
