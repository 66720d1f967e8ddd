"""The nearest memories where nothing but the vector counts: by a statement of their own, as long as it gives enough."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._sql.recalling_nearest import recall_nearest
from .._validation import check_limit
from .space import Space

if TYPE_CHECKING:
    from asyncpg import Record

    from .._sql.scoring import RecallShape

#: How many are looked for for one that is returned, and at the least: so that one notices where an index gives equal
#: vectors.
_WANTED = (3, 20)
#: With how many candidates an index is scanned, at the least, where a filter may keep what is further away.
_WITH_FILTER = 64


async def nearest(
    context: Context, parameters: Mapping[str, Any], shape: RecallShape, space: Space
) -> list[Record]:
    """Return the nearest, best first; none where what else matches belongs to them, or an index does not tell.

    A filter that turned out to keep many memories, so that they were looked for by the index, is taken to do so for
    a while: to count them again would take longer than to find the nearest.
    """
    per_hit, least = _WANTED
    count = check_limit(max(per_hit * parameters["limit"], least))
    # What an index finds last it finds less surely, so that it looks for twice as many.
    careful = max(space.ef_search, _WITH_FILTER) if shape.filtered else space.ef_search
    asked = {**parameters, "nearest": count, "ef_search": check_limit(max(2 * count, careful))}
    counts = shape.filtered and shape.pruned and shape.index is not None
    kept = _filter_of(context, parameters, shape) if counts else None
    if kept is not None:
        shape = replace(shape, few=0 if kept in space.keeping_many else space.few)
    rows = await context.candidates(recall_nearest, asked, shape)
    if kept is not None:
        space.note(kept, many=bool(rows) and rows[0]["vector_why"] == "index")
    return rows if _are_all(rows, parameters) else []


def _filter_of(context: Context, parameters: Mapping[str, Any], shape: RecallShape) -> Hashable:
    values = [repr(value) for name, value in parameters.items() if name.startswith("filter_")]
    return shape.matching, tuple(values), context.owner


def _are_all(rows: list[Record], parameters: Mapping[str, Any]) -> bool:
    """Say whether nothing else belongs to the best: what has no vector does, with a score of 0, after all that have."""
    if not rows or rows[0]["vector_why"] in ("short", "equal"):
        return False
    enough = len(rows) == parameters["limit"] or rows[0]["complete"]
    return bool(enough or parameters["min_score"] > 0)
