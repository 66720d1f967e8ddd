"""`create_index`: one approximate index for a space, built beside readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from .._context import Context
from .._validation import check_positive
from ..embedding.accepting import check_space
from ..errors import InvalidValueError, SpaceError
from ..space_records import SpaceIndex
from .filling import refuse_transaction
from .indexing import Progress, build, drop, indexes_of, turn

if TYPE_CHECKING:
    from .._sql.space_index import IndexType, SpaceIndexShape

IndexKind = Literal["hnsw"]


async def create_index(
    context: Context,
    space: str,
    *,
    kind: IndexKind,
    type: IndexType | None,
    m: int,
    ef_construction: int,
    progress: Progress | None,
) -> SpaceIndex:
    """Find out what to build, remove what a failure left, build, then drop what it replaces."""
    from .._sql.space_index import create_space_index, index_name

    if kind not in get_args(IndexKind):
        raise InvalidValueError("kind", "must be 'hnsw'")
    _check_options(m, ef_construction)
    refuse_transaction(context, "create_index")
    shape = await _shape(context, check_space(space), type)
    name = index_name(shape, m, ef_construction)
    tables = (await context.database.opened()).tables
    async with turn(context, space) as connection:
        there = await indexes_of(context.on(connection), space)
        for left in (left for left, valid in there.items() if not valid):
            await drop(context, connection, left)
        if not there.get(name):
            await build(context, connection, create_space_index(tables, shape, m, ef_construction), progress)
        for other in there:
            if there[other] and other != name and f"_{shape.dimensions}_" in other:
                await drop(context, connection, other)
    return SpaceIndex(name, kind, shape.type, m, ef_construction)


def _check_options(m: object, ef_construction: object) -> None:
    """Refuse what pgvector refuses, but before anything is dropped."""
    connections, candidates = check_positive(m, "m"), check_positive(ef_construction, "ef_construction")
    if not 2 <= connections <= 100:
        raise InvalidValueError("m", "must be from 2 to 100")
    if not max(4, 2 * connections) <= candidates <= 1000:
        raise InvalidValueError("ef_construction", "must be from 4 to 1000, and at least twice m")


async def _shape(context: Context, space: str, type: IndexType | None) -> SpaceIndexShape:
    from .._sql.space_index import MOST_DIMENSIONS, SpaceIndexShape, index_type
    from .._sql.spaces import get_space

    rows = await context.fetch(get_space, {"namespace": context.namespace, "space": space})
    if not rows:
        raise SpaceError(context.namespace, space, "is not there")
    dimensions, distance = rows[0]["dimensions"], rows[0]["distance"]
    chosen = index_type(dimensions, distance) if type is None else type
    if chosen is None or (chosen == "bit" and distance == "l2"):
        raise InvalidValueError("type", "of an index by l2 distance must be 'vector' or 'halfvec'")
    if chosen not in MOST_DIMENSIONS:
        raise InvalidValueError("type", "must be 'vector', 'halfvec', 'bit' or None")
    if dimensions > MOST_DIMENSIONS[chosen]:
        raise InvalidValueError(
            "type",
            f"{chosen!r} can be indexed up to {MOST_DIMENSIONS[chosen]} dimensions, and these are {dimensions}",
        )
    return SpaceIndexShape(space, dimensions, distance, chosen)
