"""An oracle for the exact search, and corpora to ask it about. Shares no code with the package.

Counts by MD5 of every shingle, cosines as fractions of integers, scores by decimals of 60 digits.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Context as DecimalContext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from postgres_memory._context import Context
from postgres_memory.postgres import PostgresMemory, Verbs

DIMENSIONS = 32

Counts = tuple[int, ...]

_INSERT = """
WITH given AS (
    SELECT content, counts, position
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS g (content, counts, position)
), stored AS (
    INSERT INTO memory.memories (namespace, id, content, metadata)
    SELECT $1, position::text, content, jsonb_build_object('position', position - 1) FROM given ORDER BY given.position
    RETURNING namespace, seq, id
)
INSERT INTO memory.memory_hash_embeddings (namespace, seq, embedding)
SELECT namespace, seq, counts::vector FROM stored JOIN given ON id = position::text
"""

_numbers = itertools.count(1)
_precise = DecimalContext(prec=60)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Memories in a namespace of their own, inserted in the order of ``counts``."""

    context: Context
    counts: list[Counts]

    @property
    def verbs(self) -> Verbs:
        return Verbs(self.context)


@lru_cache(maxsize=1 << 16)
def dimension(shingle: str) -> int:
    return int(hashlib.md5(shingle.encode()).hexdigest(), 16) % DIMENSIONS


@lru_cache(maxsize=128)
def counts_of(text: str) -> Counts:
    lowered = text.lower()
    counts = [0] * DIMENSIONS
    for shingle, times_seen in Counter(
        map("".join, zip(lowered, lowered[1:], lowered[2:], strict=False))
    ).items():
        counts[dimension(shingle)] += times_seen
    return tuple(counts)


def dot(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))


def key_of(memory: Counts, query: Counts) -> Fraction:
    """The square of the cosine, but for the query's norm."""
    return Fraction(dot(memory, query) ** 2, dot(memory, memory) or 1)


def exact_order(memories: Sequence[Counts], query: Counts) -> list[int]:
    keys = [key_of(memory, query) for memory in memories]
    return sorted(range(len(memories)), key=lambda position: (-keys[position], position))


def exact_score(memory: Counts, query: Counts) -> float:
    squared = Fraction(dot(memory, query) ** 2, (dot(memory, memory) * dot(query, query)) or 1)
    decimal = _precise.divide(_precise.create_decimal(squared.numerator), squared.denominator)
    return float(_precise.sqrt(decimal))


def close(score: float, exact: float) -> bool:
    """Whether ``score`` is ``exact`` but for its last two bits; 0.0 and 1.0 must be just that."""
    if exact in {0.0, 1.0}:
        return score == exact or (exact == 1.0 and 1.0 - score <= 4 * math.ulp(0.5))
    return abs(score - exact) <= 3 * math.ulp(exact) and score <= 1.0


async def insert(
    memory: PostgresMemory, contents: Sequence[str], counts: Iterable[Counts] | None = None
) -> Corpus:
    """Insert a corpus by plain SQL; ``counts`` stand for what ``contents`` would have."""
    found = [counts_of(content) for content in contents] if counts is None else list(counts)
    context = replace(memory._context, namespace=f"corpus {next(_numbers)}")
    async with context.database.acquired() as connection:
        await connection.execute(_INSERT, context.namespace, contents, [json.dumps(row) for row in found])
    return Corpus(context, found)


def padded(values: Iterable[int]) -> Counts:
    row = tuple(values)
    return row + (0,) * (DIMENSIONS - len(row))


@lru_cache(maxsize=32)
def near_ties(query: Counts, norms: tuple[int, int], pairs: int) -> list[tuple[Counts, Counts]]:
    """Pairs of vectors whose cosines with ``query`` differ by as little as could be found, but differ.

    For a vector m near the query's direction, q·q m·m − (m·q)² is small: a sum of squared determinants (Lagrange's
    identity), which float8 holds exactly where it cannot hold the terms. So sorting by it finds the nearest pairs.
    """
    chooser = np.random.default_rng(7)
    direction = np.array([value for value in query if value], np.int64)
    factors = np.sqrt(chooser.uniform(*norms, 150_000) / dot(query, query))
    rows = np.rint(factors[:, None] * direction).astype(np.int64)
    rows += chooser.integers(-1, 2, rows.shape)
    squares = (rows * rows).sum(axis=1)
    rows = rows[(rows >= 0).all(axis=1) & (squares >= norms[0]) & (squares <= norms[1])]
    squares = (rows * rows).sum(axis=1)
    determinants = [
        (direction[left] * rows[:, right] - direction[right] * rows[:, left]).astype(np.float64)
        for left, right in itertools.combinations(range(len(direction)), 2)
    ]
    below = sum((value * value for value in determinants), start=np.zeros(len(rows))) / squares
    order = np.argsort(below)
    gaps = np.diff(below[order])
    gaps[gaps == 0] = np.inf
    first = np.argsort(gaps)[:pairs]
    return [
        (padded(left), padded(right))
        for left, right in zip(rows[order[first]].tolist(), rows[order[first + 1]].tolist(), strict=True)
    ]


def smallest_gap(memories: Sequence[Counts], query: Counts) -> float:
    """How little two different keys differ, relative to them."""
    keys = sorted({key_of(memory, query) for memory in memories})
    return min((float((b - a) / b) for a, b in itertools.pairwise(keys)), default=1.0)


def random_counts(chooser: random.Random, largest: int, used: int) -> Counts:
    return padded(chooser.randint(0, largest) for _ in range(used))


def proportional(rows: list[Counts], chooser: random.Random) -> list[Counts]:
    """Multiples of some of ``rows``, and copies: exact ties."""
    picked = chooser.choices(rows, k=1 + len(rows) // 3)
    return [times(row, chooser.randint(1, 4)) for row in picked]


def times(row: Counts, factor: int) -> Counts:
    return tuple(value * factor for value in row)
