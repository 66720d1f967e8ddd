"""Making sure that the space of an embedder is there before vectors are written into it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .._context import Context
from ..errors import InvalidEmbeddingError, SpaceError

if TYPE_CHECKING:
    from asyncpg import Record

    from ..embedding.spaces import SpaceEmbedder

#: What is looked for may be made, or dropped, by another process in between.
_ATTEMPTS = 10

_logger = logging.getLogger(__name__)


async def register(
    context: Context, embedder: SpaceEmbedder, *, filling: bool = False, anew: bool = False
) -> None:
    """Create the space of an embedder whose dimensions are known, unless it is there.

    It is asked for once, or ``anew``: another process may have erased the namespace since.
    The first space of a namespace is active at once; one beside an active one, or with ``filling``, is to be filled.
    Raises InvalidEmbeddingError if it is there with other dimensions or another distance.
    """
    if context.namespace in embedder.known and not anew:
        return
    async with context.trusted() as trusted:
        row = await _found(trusted, embedder, filling=filling)
    if row["dimensions"] != embedder.dimensions or row["distance"] != embedder.distance:
        raise InvalidEmbeddingError(
            embedder.space,
            f"it holds vectors of {row['dimensions']} dimensions compared by {row['distance']}, and this embedder "
            f"makes vectors of {embedder.dimensions} dimensions to be compared by {embedder.distance}; give it a space "
            "of another name",
        )
    if row["status"] == "filling" and not filling:
        _logger.warning(
            "embedding space %r of namespace %r is not the active one yet: its vectors are not searched before "
            "switch_space()",
            embedder.space,
            context.namespace,
        )
    if context.connection is None:  # a transaction may still be rolled back, and the space with it
        embedder.known.add(context.namespace)


async def _found(context: Context, embedder: SpaceEmbedder, *, filling: bool) -> Record:
    from .._sql.spaces import get_space, register_space

    parameters = {
        "namespace": context.namespace,
        "space": embedder.space,
        "dimensions": embedder.dimensions,
        "distance": embedder.distance,
        "filling": filling,
    }
    for _ in range(_ATTEMPTS):
        rows = await context.fetch(get_space, parameters)
        if rows:
            return rows[0]
        await context.fetch(register_space, parameters)
    raise SpaceError(context.namespace, embedder.space, "keeps being made and dropped")


async def learn_dimensions(embedder: SpaceEmbedder) -> None:
    """Ask an embedder that has not said how long its vectors are for one."""
    if embedder.dimensions is None:
        await embedder.embed(["memory"])
