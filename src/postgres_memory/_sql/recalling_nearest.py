"""The statement of `recall` where there is but the vector: the nearest memories are the best."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, func, select

from .nearest import nearest_at_once
from .parameters import apart_from_planning, float_parameter
from .recalling import cut, whole_records
from .schema import Tables
from .scoring import RecallShape
from .similar import nearest_field, similarity_of
from .word_hits import matching_places

#: The one part that a score has.
_PARTS = ("vector",)


def recall_nearest(tables: Tables, shape: RecallShape) -> Select[Any]:
    """Select the nearest memories that match, best first, as `recall_lexical` has them.

    ``vector_why`` says how they were found; an index may have given too few, or mostly equal vectors. ``complete`` says
    that nothing else matches. No row comes where there is no space to find them in.
    """
    assert shape.distance is not None
    counts = shape.filtered and shape.pruned and shape.few
    matching = matching_places(tables, shape.matching, shape.few) if counts else None
    near = nearest_at_once(tables, shape, shape.distance, matching)
    similarity = similarity_of(near.memories.c.distance, shape.distance)
    part = (float_parameter("vector_weight") * similarity).label("part_vector")
    best = cut(select(near.memories.c.seq, part).subquery("ranked"), _PARTS)
    complete: ColumnElement[bool] = false()
    if matching is not None:
        known, found = (select(func.count()).select_from(rows) for rows in (matching.places, near.memories))
        complete = and_(matching.few, known.scalar_subquery() <= found.scalar_subquery())
    statement = whole_records(tables, best, _PARTS).add_columns(
        near.why.label("vector_why"), complete.label("complete")
    )
    if shape.names_field:
        statement = statement.add_columns(nearest_field(tables, best, shape, shape.distance).label("field"))
    # How what matches a filter is found best depends on the values.
    return statement if counts else apart_from_planning(statement)
