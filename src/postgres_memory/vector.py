"""``VectorMemory``: the reference for exact ranking by the hash embedding, held in memory."""

from __future__ import annotations

import heapq
import math
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

from postgres_memory._json import decode_metadata, encode_metadata
from postgres_memory._validation import check_content, check_limit
from postgres_memory.embedding.hashing import hash_counts
from postgres_memory.protocol import entry_class

if TYPE_CHECKING:
    from postgres_memory.protocol import MemoryEntry

# A content of at most 16 MiB has fewer than 2**24 shingles, so a squared norm is below 2**48. Two different
# fractions with such denominators are over 2**-96 apart: scaled by 2**96 and rounded down, they still differ.
_SCALE_BITS = 96


class _Stored(NamedTuple):
    content: str
    metadata: str
    counts: list[int]
    norm2: int


class _Ranked(NamedTuple):
    key: int
    score: float
    stored: _Stored


class VectorMemory:
    """A memory that lives as long as the object, with the ranking and the scores of ``PostgresMemory``.

    It ranks by exact cosine similarity of shingle counts (integer arithmetic, no rounding), ties in the order
    of insertion. Every search reads every entry: for tests and small sets.
    """

    def __init__(self) -> None:
        self._stored: list[_Stored] = []

    async def search(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """Return at most ``limit`` entries, the most similar first, ties in the order of insertion.

        ``score`` is the cosine similarity, from 0.0 (nothing in common, or a text too short for a shingle) to
        1.0 (the same text). The entries are copies. Raises InvalidTypeError or InvalidValueError for a query
        that is not a text PostgreSQL can hold, or a limit that is not an int or is negative.
        """
        counts = hash_counts(check_content(query, "query"))
        norm2 = _dot(counts, counts)
        ranked = [_rank(counts, norm2, stored) for stored in self._stored]
        best = heapq.nlargest(check_limit(limit), ranked, key=_key)
        entry = entry_class()
        return [entry(row.stored.content, decode_metadata(row.stored.metadata), row.score) for row in best]

    async def store(self, content: str, metadata: dict[str, Any] | None = None) -> None:
        """Remember ``content`` and a copy of ``metadata``; the same content twice makes two entries.

        Raises InvalidTypeError or InvalidValueError for what ``PostgresMemory`` could not store either.
        """
        text = check_content(content)
        encoded = encode_metadata(metadata)
        counts = hash_counts(text)
        self._stored.append(_Stored(text, encoded, counts, _dot(counts, counts)))

    async def clear(self) -> None:
        """Forget everything."""
        self._stored.clear()


def _rank(counts: list[int], norm2: int, stored: _Stored) -> _Ranked:
    dot = _dot(counts, stored.counts)
    if dot == 0:
        return _Ranked(0, 0.0, stored)
    # Counts are never negative, so dot**2 / norm2 is in the order of the cosine; the query's norm is the same
    # for all.
    key = (dot * dot << _SCALE_BITS) // stored.norm2
    # Dividing int by int rounds once. From the key's fraction, so that scores are never out of order.
    return _Ranked(key, math.sqrt(dot * dot / stored.norm2 / norm2), stored)


def _key(row: _Ranked) -> int:
    return row.key


def _dot(left: list[int], right: list[int]) -> int:
    return sum(map(mul, left, right))
