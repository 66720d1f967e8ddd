"""The contract every embedder fulfils."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How two vectors of a space are compared.
Distance = Literal["cosine", "inner_product", "l2"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. ``name`` identifies the embedding space its vectors live in.

    Two embedders whose vectors cannot be compared must have different names. ``dimensions`` is the length of every
    vector. One whose queries are embedded in another way than what they are to find has a method
    ``embed_query(text)`` as well, which returns one vector.
    """

    @property
    def name(self) -> str:
        """Which embedder this is; stable between processes and releases."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of every vector it returns."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in the order of ``texts``."""
        ...
