from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

import pytest
from flux.memory import VectorMemory as FluxVectorMemory
from hypothesis import example, given
from hypothesis import strategies as st

from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError
from postgres_memory.vector import VectorMemory

WORDS = [
    "dark",
    "mode",
    "light",
    "user",
    "prefers",
    "the",
    "likes",
    "tea",
    "no",
    "",
    "İstanbul",
    "ΟΔΟΣ",
    "日本語",
    "😀😀",
]

sentences = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
texts = st.one_of(
    sentences,
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.text("ab ", max_size=8),
    st.tuples(sentences, st.integers(2, 4)).map(
        lambda pair: (pair[0] + " ") * pair[1]
    ),  # proportional counts
)
corpora = st.lists(texts, max_size=30)


def counts(text: str) -> list[int]:
    """Count shingles as the definition says, independent of the code under test."""
    lowered = text.lower()
    found = [0] * 32
    for start in range(len(lowered) - 2):
        digest = hashlib.md5(lowered[start : start + 3].encode(), usedforsecurity=False).digest()
        found[int.from_bytes(digest, "big") % 32] += 1
    return found


def squared_cosine(left: list[int], right: list[int]) -> Fraction:
    norms = sum(x * x for x in left) * sum(x * x for x in right)
    dot = sum(x * y for x, y in zip(left, right, strict=True))
    return Fraction(dot * dot, norms) if norms else Fraction(0)


def exact_order(corpus: list[str], query: str) -> list[int]:
    wanted = counts(query)
    similarity = [squared_cosine(wanted, counts(text)) for text in corpus]
    return sorted(range(len(corpus)), key=lambda index: (-similarity[index], index))


async def filled(corpus: list[str]) -> VectorMemory:
    memory = VectorMemory()
    for index, text in enumerate(corpus):
        await memory.store(text, {"index": index})
    return memory


@given(corpus=corpora, query=texts, limit=st.integers(0, 35))
@example(corpus=["abcabc", "abc", "xyz", "", "abc"], query="abc", limit=5)
async def test_the_order_is_exact_and_ties_stay_in_insertion_order(
    corpus: list[str], query: str, limit: int
) -> None:
    found = await (await filled(corpus)).search(query, limit)
    expected = exact_order(corpus, query)[:limit]
    assert [entry.metadata["index"] for entry in found] == expected
    assert [entry.content for entry in found] == [corpus[index] for index in expected]


@given(corpus=corpora, query=texts)
async def test_the_score_is_the_cosine(corpus: list[str], query: str) -> None:
    found = await (await filled(corpus)).search(query, len(corpus))
    for entry in found:
        exact = squared_cosine(counts(query), counts(entry.content))
        assert entry.score == pytest.approx(math.sqrt(exact), rel=1e-15, abs=0)
        assert 0.0 <= entry.score <= 1.0
        if exact in (0, 1):  # the same text, or the same text several times over
            assert entry.score == exact


@given(corpus=corpora, query=texts)
async def test_flux_agrees_wherever_its_rounding_does_not_decide(corpus: list[str], query: str) -> None:
    theirs = FluxVectorMemory()
    for index, text in enumerate(corpus):
        await theirs.store(text, {"index": index})
    ours = await (await filled(corpus)).search(query, len(corpus))
    place = {
        entry.metadata["index"]: rank for rank, entry in enumerate(await theirs.search(query, len(corpus)))
    }
    assert len(place) == len(ours) == len(corpus)
    for position, better in enumerate(ours):
        for worse in ours[position + 1 :]:
            if better.score - worse.score > 1e-12:
                assert place[better.metadata["index"]] < place[worse.metadata["index"]]


async def test_cosines_closer_than_floats_tell_apart_are_ordered() -> None:
    # Counts (n, 1) and (n + 1, 1) against (1, 0): the squared cosines differ by about 2 / n**3.
    letters = "a" * 400_002
    corpus = [letters + "bcd", letters + "abcd", letters + "aabcd"]
    found = await (await filled(corpus)).search("aaa", 3)
    assert [entry.metadata["index"] for entry in found] == exact_order(corpus, "aaa")
    assert found[0].score - found[-1].score < 1e-15


async def test_texts_without_shingles_are_similar_to_nothing() -> None:
    memory = await filled(["", "ab", "abc", "zzzz", "é"])
    assert [(entry.content, entry.score) for entry in await memory.search("abc")] == [
        ("abc", 1.0),
        ("", 0.0),
        ("ab", 0.0),
        ("zzzz", 0.0),
        ("é", 0.0),
    ]
    assert [entry.content for entry in await memory.search("")] == ["", "ab", "abc", "zzzz", "é"]
    assert all(entry.score == 0.0 for entry in await memory.search("ab"))


async def test_limits() -> None:
    memory = await filled(["one", "two", "three"])
    assert await memory.search("one", 0) == []
    assert len(await memory.search("one", 1)) == 1
    assert len(await memory.search("one", 10**30)) == 3
    assert len(await (await filled(["same"] * 9)).search("same")) == 5
    bad_limits: list[tuple[Any, type[Exception]]] = [
        (-1, InvalidValueError),
        (True, InvalidTypeError),
        (2.0, InvalidTypeError),
    ]
    for bad, kind in bad_limits:
        with pytest.raises(kind, match=r"^limit: "):
            await memory.search("one", bad)


async def test_clear_forgets_everything() -> None:
    memory = await filled(["one", "two"])
    await memory.clear()
    assert await memory.search("one") == []
    await memory.store("three")
    assert [entry.content for entry in await memory.search("one")] == ["three"]


async def test_entries_and_stored_metadata_are_copies() -> None:
    memory = VectorMemory()
    given_metadata: dict[str, Any] = {"tags": ["a"]}
    await memory.store("text", given_metadata)
    given_metadata["tags"].append("b")
    (first,) = await memory.search("text")
    assert first.metadata == {"tags": ["a"]}
    first.metadata["tags"].append("c")
    first.content = "changed"
    (second,) = await memory.search("text")
    assert (second.content, second.metadata) == ("text", {"tags": ["a"]})


@pytest.mark.parametrize(
    ("content", "metadata", "argument"),
    [
        (None, None, "content"),
        ("a\0", None, "content"),
        ("\ud800", None, "content"),
        ("a" * 1_048_577, None, "content"),
        ("a", [], "metadata"),
        ("a", {"when": {1}}, 'metadata["when"]'),
        ("a", {"x": math.nan}, 'metadata["x"]'),
    ],
)
async def test_bad_input_is_refused_and_nothing_is_stored(content: Any, metadata: Any, argument: str) -> None:
    memory = VectorMemory()
    with pytest.raises(InvalidInputError) as caught:
        await memory.store(content, metadata)
    assert caught.value.argument == argument
    assert await memory.search("a") == []


@pytest.mark.parametrize("query", [None, b"a", "a\0", "\ud800"])
async def test_a_bad_query_is_refused(query: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^query: "):
        await VectorMemory().search(query)
