"""A cache of embeddings in this process: a text that was embedded is not embedded again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .._validation import check_positive
from .accepting import AnyEmbedder, accept

if TYPE_CHECKING:
    from array import array

_TEXT, _QUERY = b"t", b"q"


class CachedEmbedder:
    """``embedder`` with a cache of its last ``max_entries`` vectors, found by a digest of the text.

    A vector of n dimensions takes 4 n bytes. It has the name and the dimensions of ``embedder``, and is an embedder in
    whatever form that is accepted in.
    """

    def __init__(self, embedder: AnyEmbedder, *, max_entries: int = 10_000) -> None:
        self._inner = accept(embedder)
        self._max_entries = check_positive(max_entries, "max_entries")
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    @property
    def name(self) -> str | None:
        """The name of the embedder, if it has one."""
        return self._inner.name

    @property
    def dimensions(self) -> int | None:
        """The length of its vectors, if it says so."""
        return self._inner.dimensions

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return one vector per text; only those that are not in the cache are embedded, each once."""
        keys = [_key(_TEXT, text) for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        found: dict[bytes, Sequence[float]] = {key: self._vectors[key] for key in keys if key not in missing}
        if missing:
            found |= self._kept(list(missing), await self._inner.embed(list(missing.values())))
        return [self._used(key, found[key]) for key in keys]

    async def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query."""
        if self._inner.embed_query is None:
            return (await self.embed([text]))[0]
        key = _key(_QUERY, text)
        if key in self._vectors:
            self.hits += 1
            return self._used(key, self._vectors[key])
        self.misses += 1
        return self._kept([key], [await self._inner.embed_query(text)])[key]

    def _kept(self, keys: list[bytes], answer: Any) -> dict[bytes, Sequence[float]]:
        """Check an answer, keep it, and return it by key. What cannot be stored is not kept either."""
        from array import array

        from .vectors import check_vectors

        rows = check_vectors(answer, len(keys), self.dimensions, self.name or "(cached)")
        kept = {key: array("f", row.tobytes()) for key, row in zip(keys, rows, strict=True)}
        self._vectors |= kept
        while len(self._vectors) > self._max_entries:
            self._vectors.popitem(last=False)
        return dict(kept)

    def _used(self, key: bytes, vector: Sequence[float]) -> Sequence[float]:
        if key in self._vectors:
            self._vectors.move_to_end(key)
        return vector


def _key(kind: bytes, text: str) -> bytes:
    return sha256(kind + text.encode()).digest()
