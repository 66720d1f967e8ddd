"""The search is exact: what comes back is what integer arithmetic says, whatever the texts and the lengths."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from flux.memory.vector import VectorMemory as FluxVectorMemory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory, VectorMemory
from postgres_memory._recall.search import rank
from postgres_memory._sql.schema import SHORT_SQUARED_NORM
from postgres_memory._sql.searching import SHORT_QUERY_SQUARED_NORM

from .exact_ranking import (
    Corpus,
    Counts,
    close,
    counts_of,
    dot,
    exact_order,
    exact_score,
    insert,
    near_ties,
    padded,
    proportional,
    random_counts,
    smallest_gap,
    times,
)

# The database outlives the examples on purpose: each has a namespace of its own.
SHARED = [HealthCheck.function_scoped_fixture]
few = settings(max_examples=60, deadline=None, suppress_health_check=SHARED)
many = settings(max_examples=150, deadline=None, suppress_health_check=SHARED)

WORDS = [
    "the",
    "user",
    "likes",
    "dark",
    "mode",
    "tea",
    "red",
    "blue",
    "and",
    "İstanbul",
    "ΟΔΟΣ",
    "ẞ",
    "🎉🎉🎉",
    "日本語",
]
seeds = st.integers(0, 2**32)
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
short_texts = st.sampled_from(["", "a", "ab", "abc", "aaa", "aaaa", "ABC", "  ", "   "])
# Whatever PostgreSQL can hold that Unicode 14 knows.
any_texts = st.text(st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn"]), max_size=12).map(
    lambda text: text.replace("\0", "")
)
repeated = st.builds(lambda text, times: (text + " ") * times, phrases, st.integers(2, 4))
texts = st.one_of(phrases, phrases, short_texts, repeated, any_texts)


async def check(corpus: Corpus, query: Counts, limit: int) -> None:
    """Rank ``corpus`` and compare with the oracle."""
    rows = await rank(corpus.context, list(query), limit)
    expected = exact_order(corpus.counts, query)[:limit]
    assert [json.loads(row["metadata"])["position"] for row in rows] == expected
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    for row, position in zip(rows, expected, strict=True):
        assert close(row["score"], exact_score(corpus.counts[position], query))


async def check_texts(corpus: Corpus, contents: Sequence[str], query: str, limit: int) -> None:
    """The same through `search`."""
    entries = await corpus.verbs.search(query, limit)
    expected = exact_order(corpus.counts, counts_of(query))[:limit]
    assert [entry.metadata["position"] for entry in entries] == expected
    assert [entry.content for entry in entries] == [contents[position] for position in expected]
    scores = [entry.score for entry in entries]
    assert scores == sorted(scores, reverse=True)
    for entry, position in zip(entries, expected, strict=True):
        assert close(entry.score, exact_score(corpus.counts[position], counts_of(query)))


@given(contents=st.lists(texts, max_size=30), queries=st.lists(texts, min_size=1, max_size=4))
@many
async def test_texts_come_back_in_exact_order(
    memory: PostgresMemory, contents: list[str], queries: list[str]
) -> None:
    corpus = await insert(memory, contents)
    for query in [*queries, *contents[:2]]:
        for limit in (0, 1, 5, len(contents) + 7):
            await check_texts(corpus, contents, query, limit)


@given(seed=seeds)
@many
async def test_counts_of_any_size_come_back_in_exact_order(memory: PostgresMemory, seed: int) -> None:
    # Ten corpora an example: small numbers for ties, large ones for the bounds.
    chooser = random.Random(seed)
    for _ in range(10):
        largest = chooser.choice((1, 2, 3, 9, 60, 150, 400, 3000, 30_000, 2_900_000))
        used = chooser.choice((1, 2, 3, 8, 32))
        rows = [random_counts(chooser, largest, used) for _ in range(chooser.randint(1, 20))]
        rows += proportional(rows, chooser)
        rows.append(padded([]))
        chooser.shuffle(rows)
        corpus = await insert(memory, [""] * len(rows), rows)
        for query in (random_counts(chooser, chooser.choice((1, 4, 90, 2000)), used), chooser.choice(rows)):
            await check(corpus, query, chooser.choice((1, 5, len(rows) // 2 + 1, len(rows) + 1)))


# Norms of memories and of the query: at the bound of the float8 leg and over it, on both sides of it at once, around
# the bound of float4, up to the longest content, and short memories under a query too long for float8.
RANGES = [
    ((SHORT_SQUARED_NORM // 2, SHORT_SQUARED_NORM), SHORT_QUERY_SQUARED_NORM),
    ((SHORT_SQUARED_NORM // 2, SHORT_SQUARED_NORM * 2), SHORT_QUERY_SQUARED_NORM),
    ((SHORT_SQUARED_NORM, SHORT_SQUARED_NORM * 64), SHORT_QUERY_SQUARED_NORM),
    ((SHORT_SQUARED_NORM // 4, SHORT_SQUARED_NORM * 4), SHORT_QUERY_SQUARED_NORM * 4),
    ((2**23, 2**25), 2**24),
    ((2**28, 2**32), SHORT_QUERY_SQUARED_NORM),
    ((2**38, 2**42), 2**40),
    ((2**46, 2**48 - 1), 2**48 - 2**26),
    ((SHORT_SQUARED_NORM // 2, SHORT_SQUARED_NORM), 2**32),
    ((SHORT_SQUARED_NORM // 8, SHORT_SQUARED_NORM), 2**47),
]
QUERIES = (padded((3, 5, 7)), padded((11, 4, 6, 2, 9)), padded((7, 9, 8, 11, 6, 10, 9, 12, 7, 8, 10, 9)))


def scaled(shape: Counts, norm: int) -> Counts:
    """Counts of the direction of ``shape``, nearly, with a squared norm just under ``norm``."""
    factor = (norm / dot(shape, shape)) ** 0.5
    return padded(int(value * factor) for value in shape)


@pytest.mark.parametrize(("norms", "query_norm"), RANGES)
@given(shape=st.sampled_from(QUERIES), seed=seeds)
@settings(few, max_examples=25)
async def test_the_least_possible_differences_are_seen(
    memory: PostgresMemory, norms: tuple[int, int], query_norm: int, shape: Counts, seed: int
) -> None:
    chooser = random.Random(seed)
    query = scaled(shape, query_norm)
    pairs = chooser.sample(near_ties(query, norms, 200), 20)
    rows = [row for pair in pairs for row in pair]
    rows += [times(row, 2) for row in rows[:6] if 4 * dot(row, row) < 2**48]
    chooser.shuffle(rows)
    corpus = await insert(memory, [""] * len(rows), rows)
    for limit in (1, 3, len(rows) // 2 + 1, len(rows) + 1):
        await check(corpus, query, limit)


@pytest.mark.parametrize(("norms", "query_norm"), RANGES)
def test_those_differences_are_hardly_larger_than_the_bound(norms: tuple[int, int], query_norm: int) -> None:
    """Two different keys a/b and c/d differ by at least 1/ad of their size, 2⁻⁵² at the bound of float8."""
    query = scaled(QUERIES[2], query_norm)
    gaps = [smallest_gap(pair, query) for pair in near_ties(query, norms, 200)]
    assert len(gaps) == 200
    # 2⁻⁴² where memories are few and short, 2⁻⁷⁸ where they are the longest.
    assert min(gaps) < 2.0**-40


@pytest.mark.parametrize("gap", [0, 1, 2])
async def test_neighbours_of_the_bounds(memory: PostgresMemory, gap: int) -> None:
    """The float8 leg takes norms up to its bound and no further; both sides rank as one list."""
    side = 362  # 362² = 131,044 = 2¹⁷ − 28
    rows = [padded((side, used, gap)) for used in range(12)]
    assert any(dot(row, row) <= SHORT_SQUARED_NORM for row in rows)
    assert any(dot(row, row) > SHORT_SQUARED_NORM for row in rows)
    corpus = await insert(memory, [""] * len(rows), rows)
    for query in (padded((512,)), padded((512, 1)), padded((300, 7, 2)), padded((5000, 60, 3))):
        for limit in (1, 6, 12):
            await check(corpus, query, limit)


async def test_inner_products_that_float4_cannot_add_up(memory: PostgresMemory) -> None:
    # 8,814² + 8,815·3 and its like: sums over 2²⁴ whose last bits float4 drops.
    rows = [padded((8814 + used, 3 + used, 1, used)) for used in range(9)]
    corpus = await insert(memory, [""] * len(rows), rows)
    for query in (padded((8815, 3, 1, 1)), padded((3, 8815, 1)), padded((8_000_001, 1, 3))):
        await check(corpus, query, 9)


LONG = {
    "prose": "The user prefers the dark mode, and tea without milk. ",
    "one letter": "a",
    "unicode": "Ο ΔΡΌΜΟΣ 日本語 🎉 ",
}


@pytest.mark.parametrize("name", LONG)
async def test_long_texts(memory: PostgresMemory, name: str) -> None:
    """From 100 characters to 1 MB: both legs, both inner products, and exact ties across the lengths."""
    unit = LONG[name]
    longest = 1_048_576 // len(unit.encode())
    lengths = [max(1, longest // 4**power) for power in range(10)]
    contents = [unit * length for length in lengths] + [unit * lengths[3], "tea " + unit * lengths[4], "tea"]
    corpus = await insert(memory, contents)
    assert max(dot(row, row) for row in corpus.counts) > 2**34
    for query in ("tea without milk", unit * 3, unit * lengths[5], contents[0], contents[1] + "tea"):
        for limit in (1, 4, len(contents) + 1):
            await check_texts(corpus, contents, query, limit)


@given(contents=st.lists(texts, max_size=15), query=texts, limit=st.integers(0, 20))
@few
async def test_same_as_vector_memory_bit_for_bit(
    memory: PostgresMemory, contents: list[str], query: str, limit: int
) -> None:
    """Both are filled by `store`, so that what `store` writes is what `search` ranks by."""
    await memory.clear()
    reference = VectorMemory()
    async with memory.transaction() as transaction:
        for position, content in enumerate(contents):
            await transaction.store(content, {"position": position})
            await reference.store(content, {"position": position})
    assert await memory.search(query, limit) == await reference.search(query, limit)


async def test_same_as_vector_memory_for_long_texts(memory: PostgresMemory) -> None:
    reference = VectorMemory()
    chooser = random.Random(3)
    for length in (3, 50, 2_000, 2_000, 9_000, 40_000, 300_000, 900_000):
        text = " ".join(chooser.choices(WORDS[:9], k=length // 5))
        await memory.store(text)
        await reference.store(text)
    for query in ("the user likes tea", "dark mode " * 300, "red blue " * 50_000, "a" * 1_000_000):
        assert await memory.search(query, 9) == await reference.search(query, 9)


@given(contents=st.lists(texts, min_size=1, max_size=15), query=texts)
@few
async def test_same_as_flux_where_its_rounding_does_not_decide(
    memory: PostgresMemory, contents: list[str], query: str
) -> None:
    theirs = FluxVectorMemory()
    for position, content in enumerate(contents):
        await theirs.store(content, {"position": position})
    corpus = await insert(memory, contents)
    ours = await corpus.verbs.search(query, len(contents))
    places = {
        _position(entry): place for place, entry in enumerate(await theirs.search(query, len(contents)))
    }
    scores = [exact_score(row, counts_of(query)) for row in corpus.counts]
    order = [_position(entry) for entry in ours]
    for place, first in enumerate(order):
        for second in order[place + 1 :]:
            if scores[first] - scores[second] > 1e-12:
                assert places[first] < places[second]


def _position(entry: Any) -> int:
    return int(entry.metadata["position"])


async def test_zero_vectors_stand_among_the_other_zeros(memory: PostgresMemory) -> None:
    for content in ("ab", "qqq", "", "tea", "zzz", "x"):
        await memory.store(content)
    assert [(e.content, e.score) for e in await memory.search("tea", 9)] == [
        ("tea", 1.0),
        *((content, 0.0) for content in ("ab", "qqq", "", "zzz", "x")),
    ]
    assert [(e.content, e.score) for e in await memory.search("te", 9)] == [
        (content, 0.0) for content in ("ab", "qqq", "", "tea", "zzz", "x")
    ]
