"""The vectors of contents that are to be written, made before a connection is taken for that."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._spaces.registering import register
from ..errors import EmbedderError, InvalidEmbeddingError

if TYPE_CHECKING:
    from ..embedding.vectors import Vectors

#: The parameters of a statement whose memory is embedded later.
NO_VECTOR: dict[str, Any] = {"space": None, "dimensions": None, "vector": None}

_logger = logging.getLogger(__name__)


async def vector_of(context: Context, content: str) -> dict[str, Any]:
    """Return the parameters that give a content its vector."""
    rows = await vectors_of(context, [content])
    if rows is None:
        return NO_VECTOR
    return space_of(context, rows) | {"vector": rows[0].tolist()}


def space_of(context: Context, rows: Vectors | None) -> dict[str, Any]:
    """Return the parameters that say which space vectors are for."""
    if rows is None or context.embedder is None:
        return {"space": None, "dimensions": None}
    return {"space": context.embedder.space, "dimensions": rows.shape[1]}


async def vectors_of(context: Context, contents: Sequence[str]) -> Vectors | None:
    """Return a vector for each content, or None where all of them are to wait for `embed_pending`.

    They wait where there is no embedder, where it fails, and in a transaction of the caller's, unless he wants it to
    stay open meanwhile. What cannot be stored raises InvalidEmbeddingError.
    """
    embedder = context.embedder
    if embedder is None or not contents:
        return None
    if context.connection is not None and not context.embed_in_transactions:
        return None
    try:
        rows = await embedder.embed(contents)
    except InvalidEmbeddingError:
        raise
    except EmbedderError as error:
        _logger.warning("%d memories wait for embed_pending(): %s", len(contents), error.without_words)
        _logger.debug("the embedder failed: %s", error)
        return None
    await register(context, embedder)
    return rows
