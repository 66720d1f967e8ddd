"""The hash embedding: 32 numbers from a text, without a model and without a network.

Lower-case the text (``str.lower``); for every overlapping shingle of three characters take the MD5 of its UTF-8 bytes
as one big-endian integer modulo 32, and add 1 to that dimension; divide the counts by their L2 norm. The vector of a
text with fewer than three characters is zero and stays zero. This is the embedding of ``flux.memory.VectorMemory``,
rounded to the float4 that PostgreSQL keeps. The SQL functions of ``_sql/functions.py`` give the same 32 values, bit
for bit, for every text of up to 16,777,218 characters: beyond that a count may not fit a float4.

Importing this module is cheap; NumPy is loaded by the first text of three characters or more.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from functools import cache
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy import int64
    from numpy.typing import NDArray

    from ._shingles import ShingleCounter

DIMENSIONS = 32

# Characters looked at in one go: bounds the working memory to a few megabytes, whatever the length of a text.
_PIECE = 1 << 16
# Texts embedded before the event loop gets its turn: about 1 ms of short ones.
_TURN = 256


def hash_counts(text: str) -> list[int]:
    """Return how many shingles of ``text`` fall on each of the 32 dimensions: exact integers.

    Raises UnicodeEncodeError for three or more characters with a lone surrogate among them.
    """
    lowered = text.lower()
    if len(lowered) < 3:
        return [0] * DIMENSIONS
    counts: list[int] = _count(lowered).tolist()
    return counts


def hash_counts_many(texts: Sequence[str]) -> NDArray[int64]:
    """Return the shingle counts of each text, one row of 32 per text. Much faster than one text at a time.

    Raises UnicodeEncodeError as ``hash_counts`` does.
    """
    counter = _counter()
    rows = counter.zeros(len(texts))
    for start, lowered in _groups(texts):
        if len(lowered) == 1:
            rows[start] = _count(lowered[0])
        else:
            rows[start : start + len(lowered)] = counter.count_each(lowered)
    return rows


def normalize(counts: Sequence[int]) -> list[float]:
    """Return ``counts`` divided by their L2 norm, each value rounded to float4; zero counts stay zero."""
    norm = math.sqrt(sum(map(mul, counts, counts))) or 1.0
    return array("f", [count / norm for count in counts]).tolist()


def hash_embedding(text: str) -> list[float]:
    """Return the hash embedding of ``text``: 32 float4 values of norm 1, or 32 zeros for fewer than 3 characters.

    Raises UnicodeEncodeError as ``hash_counts`` does.
    """
    return normalize(hash_counts(text))


class HashEmbedder:
    """The hash embedding as an embedder. Needs no model, no network and no state of its own."""

    name = "hash"
    dimensions = DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the hash embedding of each text, in the order of ``texts``."""
        if len(texts) == 1 and len(texts[0]) <= _PIECE:
            return [hash_embedding(texts[0])]  # a turn of the event loop would take as long
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _TURN):
            rows = hash_counts_many(texts[start : start + _TURN])
            vectors.extend(_counter().normalize_each(rows))
            await asyncio.sleep(0)
        return vectors


@cache
def _counter() -> ShingleCounter:
    from ._shingles import ShingleCounter

    return ShingleCounter()


def _count(lowered: str) -> NDArray[int64]:
    counter = _counter()
    if len(lowered) <= _PIECE:
        return counter.count(lowered)
    starts = range(0, len(lowered) - 2, _PIECE)
    counts = (counter.count(lowered[start : start + _PIECE + 2]) for start in starts)
    return sum(counts, start=counter.zeros(1)[0])


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Lower-cased texts in groups of bounded size, each with the position of its first text."""
    group: list[str] = []
    size = 0
    for position, text in enumerate(texts):
        lowered = text.lower()
        if group and size + len(lowered) > _PIECE:
            yield position - len(group), group
            group, size = [], 0
        group.append(lowered)
        size += len(lowered) + 1
    if group:
        yield len(texts) - len(group), group
