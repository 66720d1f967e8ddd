"""The vectors of texts that are to be written, made before a connection is taken for that."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from .._context import Context
from .._spaces.registering import register
from ..errors import EmbedderError, InvalidEmbeddingError

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from ..embedding.vectors import Vectors
    from .preparing import Batch

#: The parameters of a statement whose memory is embedded later.
NO_VECTOR: dict[str, Any] = {"space": None, "dimensions": None, "vector": None, "fields": None}

_logger = logging.getLogger(__name__)


class FieldVector(NamedTuple):
    """The vector of a string of the metadata, by its field, and the digest of the string."""

    name: str
    digest: bytes
    vector: NDArray[float32]


async def embedded(
    context: Context,
    content: str | None,
    metadata: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the parameters that give a content, if there is one, and the fields of the metadata their vectors.

    Where the metadata were others ``before``, these are the fields that change; of those that go away, nulls.
    """
    old, new = context.fields.strings(before), context.fields.strings(metadata)
    changed = {name: text for name, text in new.items() if old.get(name) != text}
    contents = [content] if content is not None and context.fields.content else []
    rows = await vectors_of(context, [*contents, *changed.values()])
    vector = rows[0].tolist() if rows is not None and contents else None
    vectors = rows[len(contents) :].tolist() if rows is not None else [None] * len(changed)
    entries = [field_entry(*one) for one in zip(changed, changed.values(), vectors, strict=True)]
    entries += [field_entry(name, None, None) for name in old.keys() - new.keys()]
    given = rows is not None or (entries and before is not None)
    space = space_of(context, rows) if given else {"space": None, "dimensions": None}
    return space | {"vector": vector, "fields": json.dumps(entries) if given and entries else None}


def field_entry(name: str, text: str | None, vector: list[float] | None) -> dict[str, Any]:
    """Return a field as statements take it: with a digest of its text, if there is a vector of that."""
    digest = None if text is None or vector is None else sha256(text.encode()).hexdigest()
    return {"field": name, "digest": digest, "embedding": vector}


def space_of(context: Context, rows: Vectors | None) -> dict[str, Any]:
    """Return the parameters that say which space vectors are for, or would be."""
    if context.embedder is None:
        return {"space": None, "dimensions": None}
    dimensions = context.embedder.dimensions if rows is None else rows.shape[1]
    return {"space": context.embedder.space, "dimensions": dimensions}


async def embed_batch(context: Context, batch: Batch) -> None:
    """Embed what a batch holds; what it keeps for that alone is dropped."""
    contents = batch.contents if context.fields.content else []
    texts = [text for fields in batch.texts.values() for text in fields.values()]
    rows = await vectors_of(context, [*contents, *texts])
    if rows is not None:
        batch.vectors = rows[: len(contents)] if contents else None
        left = iter(rows[len(contents) :])
        batch.text_vectors = {
            position: [
                FieldVector(name, sha256(text.encode()).digest(), next(left)) for name, text in fields.items()
            ]
            for position, fields in batch.texts.items()
        }
    batch.contents, batch.texts = [], {}


async def vectors_of(context: Context, contents: Sequence[str]) -> Vectors | None:
    """Return a vector for each text, or None where all of them are to wait for `embed_pending`.

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
