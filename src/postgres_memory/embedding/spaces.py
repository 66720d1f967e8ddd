"""An embedder together with the embedding space that its vectors go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from .._telemetry import embedding
from ..errors import EmbedderError, InvalidValueError
from .accepting import Call, accept, space_of
from .protocol import Distance
from .vectors import check_vectors

if TYPE_CHECKING:
    from .vectors import Vectors

#: Texts given to an embedder at once. Adapters may cut them smaller.
_AT_ONCE = 256


class SpaceEmbedder:
    """Embeds texts for one space and checks what comes back.

    ``space`` is its name, ``dimensions`` is None until somebody says or the first answer shows them.
    """

    def __init__(self, embedder: object, *, space: str | None = None, distance: Distance = "cosine") -> None:
        accepted = accept(embedder)
        if distance not in get_args(Distance):
            raise InvalidValueError("distance", "must be 'cosine', 'inner_product' or 'l2'")
        self.space = space_of(accepted, space)
        self.distance = distance
        self.dimensions = accepted.dimensions
        #: The namespaces whose space of this name is known to be there, with the right dimensions.
        self.known: set[str] = set()
        self._embed = accepted.embed
        self._embed_query = accepted.embed_query

    def __repr__(self) -> str:
        return f"SpaceEmbedder({self.space!r}, dimensions={self.dimensions})"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a float4 vector for each text, one a row. Raises EmbedderError or InvalidEmbeddingError."""
        import numpy as np

        parts: list[Vectors] = []
        for start in range(0, len(texts), _AT_ONCE):
            some = list(texts[start : start + _AT_ONCE])
            parts.append(self._checked(await self._asked(self._embed, some), len(some)))
        if not parts:
            return np.empty((0, self.dimensions or 0), np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector that stands for a query. Raises as `embed` does."""
        if self._embed_query is None:
            rows = await self.embed([text])
        else:
            rows = self._checked([await self._asked(self._embed_query, text)], 1)
        vector: list[float] = rows[0].tolist()
        return vector

    async def _asked(self, function: Call, given: str | list[str]) -> Any:
        try:
            with embedding(self.space, 1 if isinstance(given, str) else len(given)):
                return await function(given)
        except EmbedderError:
            raise
        except (
            Exception
        ) as error:  # the caller's code, which may raise anything; a memory is stored all the same
            raise EmbedderError(
                self.space, f"the embedder failed: {type(error).__name__}: {error}"
            ) from error

    def _checked(self, answer: Any, count: int) -> Vectors:
        rows = check_vectors(answer, count, self.dimensions, self.space)
        self.dimensions = rows.shape[1]
        return rows


def space_embedder(embedder: object | None, space: str | None, distance: Distance) -> SpaceEmbedder | None:
    """Return what embeds into a space, if there is an embedder; else neither a space nor a distance may be named."""
    if embedder is not None:
        return SpaceEmbedder(embedder, space=space, distance=distance)
    if space is not None or distance != "cosine":
        raise InvalidValueError("embedder", "must be given where space or distance is")
    return None
