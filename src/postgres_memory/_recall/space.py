"""What is known of the space of an embedder: looked up now and then, not for each recall."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .._context import Context

if TYPE_CHECKING:
    from .._sql.space_index import SpaceIndexShape
    from ..embedding.spaces import SpaceEmbedder

#: Seconds for which what was found is taken for true. An index that is gone makes a recall slow, and nothing else.
_REMEMBERED = 60.0


@dataclass(frozen=True, slots=True)
class Space:
    """The ``dimensions`` of a namespace's space, None if it is not there, and the ``index`` that serves it, if any.

    A namespace that has not ``many`` embeddings in it is read through, also where there is an index.
    """

    dimensions: int | None
    index: SpaceIndexShape | None
    many: bool
    until: float


_known: WeakKeyDictionary[SpaceEmbedder, dict[str, Space]] = WeakKeyDictionary()


async def space_of_embedder(context: Context, embedder: SpaceEmbedder) -> Space:
    """Return what is known of the embedder's space in this namespace."""
    of_namespaces = _known.setdefault(embedder, {})
    known = of_namespaces.get(context.namespace)
    if known is None or known.dimensions is None or monotonic() > known.until:
        known = of_namespaces[context.namespace] = await _look(context, embedder)
    return known


async def _look(context: Context, embedder: SpaceEmbedder) -> Space:
    from .._sql.nearest import has_many
    from .._sql.space_index import find_space_indexes, index_prefix, shape_of_index
    from .._sql.spaces import get_space

    rows = await context.fetch(get_space, {"namespace": context.namespace, "space": embedder.space})
    if not rows:
        return Space(None, None, False, 0)
    dimensions = rows[0]["dimensions"]
    found = await context.fetch(find_space_indexes, {"prefix": index_prefix(embedder.space)})
    shapes = [shape_of_index(row["name"], embedder.space, embedder.distance) for row in found if row["valid"]]
    fitting = [shape for shape in shapes if shape.dimensions == dimensions]
    many = False
    if fitting:
        asked = {"namespace": context.namespace, "space": embedder.space, "dimensions": dimensions}
        ((many,),) = await context.candidates(has_many, asked, context.fields)
    return Space(dimensions, fitting[0] if fitting else None, many, monotonic() + _REMEMBERED)
