"""Counting shingles with NumPy: two tables of fixed size that remember the dimension of shingles already met.

The tables only gain right entries, each written as one machine word, so threads may share them without a lock: the
worst a race costs is one MD5 computed twice.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_DIMENSIONS = 32
_BOUNDARY = 32  # the dimension given to a shingle that spans two texts of a batch
_UNKNOWN = 255

_Dimensions = NDArray[np.uint8]


class ShingleCounter:
    """Counts the shingles of lower-cased texts per dimension."""

    def __init__(self) -> None:
        self._ascii = _AsciiTable()
        self._wide = _WideTable()

    def zeros(self, rows: int) -> NDArray[np.int64]:
        """Return ``rows`` rows of 32 zero counts."""
        return np.zeros((rows, _DIMENSIONS), np.int64)

    def count(self, lowered: str) -> NDArray[np.int64]:
        """Return the 32 counts of one text."""
        if len(lowered) < 3:
            return np.zeros(_DIMENSIONS, np.int64)
        counts: NDArray[np.int64] = np.bincount(self._dimensions(lowered), minlength=_DIMENSIONS)
        return counts

    def count_each(self, lowered: list[str]) -> NDArray[np.int64]:
        """Return the counts of several texts, one row each, in one go over all their characters."""
        joined = "".join(lowered)
        shingles = len(joined) - 2
        if shingles < 1:
            return self.zeros(len(lowered))
        lengths = np.fromiter(map(len, lowered), np.int64, len(lowered))
        width = _DIMENSIONS + 1
        rows = np.repeat(np.arange(len(lowered)) * width, lengths)[:shingles]
        dimensions = self._dimensions(joined, _boundaries(lengths, shingles))
        counts = np.bincount(rows + dimensions, minlength=len(lowered) * width)
        return counts.reshape(-1, width)[:, :_DIMENSIONS]

    def normalize_each(self, counts: NDArray[np.int64]) -> list[list[float]]:
        """Return each row divided by its L2 norm and rounded to float4; a zero row stays zero."""
        norms = np.sqrt((counts * counts).sum(axis=1))
        norms[norms == 0.0] = 1.0
        rows: list[list[float]] = (counts / norms[:, None]).astype(np.float32).tolist()
        return rows

    def _dimensions(self, lowered: str, boundaries: NDArray[np.int64] | None = None) -> _Dimensions:
        table: _Table = self._ascii if lowered.isascii() else self._wide
        keys = table.keys(lowered)
        dimensions = table.look_up(keys)
        if boundaries is not None:
            dimensions[boundaries] = _BOUNDARY
        if _UNKNOWN in dimensions.tobytes():
            _learn(table, lowered, keys, dimensions)
        return dimensions


class _Table(Protocol):
    def keys(self, lowered: str) -> NDArray[np.integer]: ...

    def look_up(self, keys: NDArray[np.integer]) -> _Dimensions: ...

    def remember(self, keys: NDArray[np.integer], dimensions: _Dimensions) -> None: ...


class _AsciiTable:
    """One byte for each of the 128³ shingles of ASCII characters, filled as they occur."""

    def __init__(self) -> None:
        self._dimensions = np.full(1 << 21, _UNKNOWN, np.uint8)

    def keys(self, lowered: str) -> NDArray[np.integer]:
        codes = np.frombuffer(lowered.encode("ascii"), np.uint8).astype(np.int32)
        return (codes[:-2] << 14) | (codes[1:-1] << 7) | codes[2:]

    def look_up(self, keys: NDArray[np.integer]) -> _Dimensions:
        return self._dimensions.take(keys)

    def remember(self, keys: NDArray[np.integer], dimensions: _Dimensions) -> None:
        self._dimensions[keys] = dimensions


class _WideTable:
    """A direct-mapped cache for shingles of any characters: a newer shingle takes the place of an older one.

    The key is the three code points, 21 bits each, multiplied by an odd number modulo 2⁶⁴, which loses nothing. Its
    high 18 bits choose the slot; the slot's word holds the other 46 bits, then a 1 and the dimension in the low 6 bits.
    """

    _MIX = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: Knuth, TAOCP vol. 3, section 6.4
    _TO_SLOT = np.uint64(46)
    _TO_TAG = np.uint64(18)
    _PRESENT = np.uint64(32)

    def __init__(self) -> None:
        self._words = np.zeros(1 << 18, np.uint64)

    def keys(self, lowered: str) -> NDArray[np.integer]:
        points = np.frombuffer(lowered.encode("utf-32-le"), "<u4").astype(np.uint64)
        packed = (points[:-2] << np.uint64(42)) | (points[1:-1] << np.uint64(21)) | points[2:]
        return packed * self._MIX

    def look_up(self, keys: NDArray[np.integer]) -> _Dimensions:
        found = self._words.take(keys >> self._TO_SLOT) ^ (keys << self._TO_TAG)
        dimensions = (found ^ self._PRESENT).astype(np.uint8)
        dimensions[(found >> np.uint64(5)) != np.uint64(1)] = _UNKNOWN
        return dimensions

    def remember(self, keys: NDArray[np.integer], dimensions: _Dimensions) -> None:
        self._words[keys >> self._TO_SLOT] = (keys << self._TO_TAG) | self._PRESENT | dimensions


def _boundaries(lengths: NDArray[np.int64], shingles: int) -> NDArray[np.int64]:
    """Where, in the joined texts, shingles begin that do not lie within one text."""
    ends = lengths.cumsum()
    starts = np.concatenate((ends - 2, ends - 1))
    return starts[(starts >= 0) & (starts < shingles)]


def _learn(table: _Table, lowered: str, keys: NDArray[np.integer], dimensions: _Dimensions) -> None:
    """Fill in the unknown ``dimensions`` by MD5, once per distinct shingle, and let the table remember them."""
    unknown = np.flatnonzero(dimensions == _UNKNOWN)
    hashed: dict[str, int] = {}
    for start in unknown.tolist():
        shingle = lowered[start : start + 3]
        if shingle not in hashed:
            hashed[shingle] = _dimension(shingle)
        dimensions[start] = hashed[shingle]
    table.remember(keys[unknown], dimensions[unknown])


def _dimension(shingle: str) -> int:
    # 32 divides 256, so the last byte of the digest decides. MD5 is no security here: this also works in FIPS mode.
    return hashlib.md5(shingle.encode(), usedforsecurity=False).digest()[-1] % _DIMENSIONS
