"""Checks of what an embedder returns, before anything is written: so many vectors, so long, all of them numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidEmbeddingError

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vectors = NDArray[float32]

#: The longest vector that pgvector stores.
MAX_DIMENSIONS = 16_000


def check_vectors(given: Any, count: int, dimensions: int | None, space: str) -> Vectors:
    """Return ``given`` as ``count`` rows of float4. Raises InvalidEmbeddingError, which says what is wrong."""
    import numpy as np

    try:
        with np.errstate(over="ignore"):
            rows = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        lengths = _lengths(given)
        told = (
            f"vectors of different dimensions ({min(lengths)} to {max(lengths)})" if lengths else "no vectors"
        )
        raise InvalidEmbeddingError(space, f"the embedder returned {told}") from error
    if rows.ndim != 2:
        raise InvalidEmbeddingError(space, f"the embedder returned no list of vectors for {count} texts")
    if len(rows) != count:
        raise InvalidEmbeddingError(space, f"the embedder returned {len(rows)} vectors for {count} texts")
    found = rows.shape[1]
    if dimensions is not None and found != dimensions:
        raise InvalidEmbeddingError(
            space,
            f"the embedder returned vectors of {found} dimensions where {dimensions} are expected; vectors of another "
            "model need a space of their own",
        )
    if not 1 <= found <= MAX_DIMENSIONS:
        raise InvalidEmbeddingError(
            space, f"vectors of {found} dimensions cannot be stored; 1 to {MAX_DIMENSIONS} can"
        )
    if not np.isfinite(rows).all():
        raise InvalidEmbeddingError(
            space, "the embedder returned a vector with NaN, infinity or a number too large for float4"
        )
    return rows


def _lengths(given: Any) -> list[int]:
    """Return how long the vectors are, where they are lists and not all of one length."""
    lengths = (
        [len(vector) for vector in given if hasattr(vector, "__len__")] if hasattr(given, "__iter__") else []
    )
    return lengths if len(set(lengths)) > 1 else []
