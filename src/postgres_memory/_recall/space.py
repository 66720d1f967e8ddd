"""What is known of the space of an embedder: looked up now and then, not for each recall."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .._context import Context

if TYPE_CHECKING:
    from .._sql.space_index import SpaceIndexShape
    from ..embedding.spaces import SpaceEmbedder

#: How many candidates an index keeps while it looks for the nearest few. 40 find 0.996 of the five nearest of 20,000,
#: 64 find 0.998 of those of 100,000: of hash embeddings of sentences; of vectors of 384 dimensions in clusters, more.
MOST_CAREFUL = 100
#: By how many entries the index has: that number, and up to how many memories that match a filter are compared one by
#: one. To compare one takes 3 µs. To find 20 by the index takes 5 µs for each entry passed, fewer where more match: as
#: long where the square of those that match is 34 times the entries.
_SCANS = ((30_000, 40, 800), (300_000, 64, 2_000), (inf, MOST_CAREFUL, 5_000))
#: How many filters are remembered to keep many memories.
_REMEMBERED_FILTERS = 1_000

#: Seconds for which what was found is taken for true. An index that is gone makes a recall slow, and nothing else.
_REMEMBERED = 60.0


@dataclass(frozen=True, slots=True)
class Space:
    """The ``dimensions`` of a namespace's space, None if it is not there, and the ``index`` that serves it, if any.

    A namespace that has not ``many`` embeddings in it is read through, also where there is an index; ``ef_search`` is
    with how many candidates that is to be scanned, at the least, and ``few`` how many memories that match a filter are
    compared one by one instead. Of the filters ``keeping_many`` it is known that more match.
    """

    dimensions: int | None
    index: SpaceIndexShape | None
    many: bool
    until: float
    ef_search: int = MOST_CAREFUL
    few: int = 0
    keeping_many: set[Hashable] = field(default_factory=set)

    def note(self, kept: Hashable, *, many: bool) -> None:
        """Remember, or forget, that a filter keeps many memories."""
        if not many:
            self.keeping_many.discard(kept)
            return
        if len(self.keeping_many) >= _REMEMBERED_FILTERS:
            self.keeping_many.clear()
        self.keeping_many.add(kept)


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
    shapes = [
        (shape_of_index(row["name"], embedder.space, embedder.distance), row["entries"])
        for row in found
        if row["valid"]
    ]
    fitting = [(shape, entries) for shape, entries in shapes if shape.dimensions == dimensions]
    index, many, entries = None, False, inf
    if fitting:
        index, entries = fitting[0]
        asked = {"namespace": context.namespace, "space": embedder.space, "dimensions": dimensions}
        ((many,),) = await context.candidates(has_many, asked, context.fields)
    known = inf if entries < 0 else entries
    ef_search, few = next((ef_search, few) for most, ef_search, few in _SCANS if known <= most)
    return Space(dimensions, index, many, monotonic() + _REMEMBERED, ef_search, few)
