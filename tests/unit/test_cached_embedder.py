"""The cache of embeddings: what was embedded is not asked for again, and it does not grow without bound."""

from __future__ import annotations

from typing import Any

import pytest

from postgres_memory import CachedEmbedder
from postgres_memory.embedding.spaces import SpaceEmbedder
from postgres_memory.errors import EmbedderError, InvalidEmbeddingError, InvalidValueError
from tests.embedders import WordEmbedder, word_vector


async def test_a_text_is_embedded_once() -> None:
    inner = WordEmbedder()
    cached = CachedEmbedder(inner)
    space = SpaceEmbedder(cached)
    assert (space.space, space.dimensions) == ("words", 8)
    for texts in (["a", "b", "a"], ["b", "c"], [], ["a", "c"]):
        assert (await space.embed(texts)).tolist() == [word_vector(text) for text in texts]
    assert inner.asked == [["a", "b"], ["c"]]
    assert (cached.hits, cached.misses) == (4, 3)


async def test_queries_that_are_embedded_in_another_way_are_kept_apart() -> None:
    class Two:
        name = "two"
        asked = 0

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [word_vector(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            self.asked += 1
            return [-value for value in word_vector(text)]

    inner = Two()
    space = SpaceEmbedder(CachedEmbedder(inner))
    for _ in range(2):
        assert (await space.embed(["a"])).tolist() == [word_vector("a")]
        assert await space.embed_query("a") == [-value for value in word_vector("a")]
    assert inner.asked == 1
    same = SpaceEmbedder(CachedEmbedder(WordEmbedder()))
    assert await same.embed_query("a") == word_vector("a")


async def test_those_used_last_are_kept() -> None:
    inner = WordEmbedder()
    cached = CachedEmbedder(inner, max_entries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert inner.asked == [["a"], ["b"], ["c"], ["b"]]
    assert [list(vector) for vector in await cached.embed(["x", "y", "z"])] == [
        word_vector(text) for text in "xyz"
    ]
    with pytest.raises(InvalidValueError, match=r"^max_entries: "):
        CachedEmbedder(inner, max_entries=0)


async def test_failures_and_what_cannot_be_stored_are_not_kept() -> None:
    inner = WordEmbedder()
    space = SpaceEmbedder(CachedEmbedder(inner))
    inner.fails = lambda _: True
    with pytest.raises(EmbedderError, match="the model is away"):
        await space.embed(["a"])
    inner.fails = lambda _: False
    assert (await space.embed(["a"])).tolist() == [word_vector("a")]
    answers: list[Any] = [[[float("nan")]], [[1.0]]]
    space = SpaceEmbedder(CachedEmbedder(lambda _: answers.pop(0)), space="s")
    with pytest.raises(InvalidEmbeddingError, match="NaN"):
        await space.embed(["a"])
    assert (await space.embed(["a"])).tolist() == [[1.0]]
