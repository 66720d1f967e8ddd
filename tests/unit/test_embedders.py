"""What is accepted as an embedder, and what of its answers is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from postgres_memory import HashEmbedder
from postgres_memory.embedding.spaces import SpaceEmbedder
from postgres_memory.errors import (
    EmbedderError,
    InvalidEmbeddingError,
    InvalidTypeError,
    InvalidValueError,
)
from tests.embedders import WordEmbedder, word_vector

TEXTS = ["a cat", "two dogs", ""]
EXPECTED = [word_vector(text) for text in TEXTS]


def by_function(texts: list[str]) -> list[list[float]]:
    return [word_vector(text) for text in texts]


async def by_coroutine(texts: list[str]) -> list[list[float]]:
    return by_function(texts)


class Documents:
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return by_function(texts)

    def embed_query(self, text: str) -> list[float]:
        return [-value for value in word_vector(text)]


class AsyncDocuments(Documents):
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return by_function(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return [2 * value for value in word_vector(text)]


class Encoder:
    name = None

    def encode(self, sentences: list[str]) -> Any:
        return np.asarray(by_function(sentences), np.float64)


class Prompting(Encoder):
    def encode_document(self, sentences: list[str]) -> Any:
        return self.encode(sentences)

    def encode_query(self, text: str) -> Any:
        return self.encode([text])[0] * 4


class Generating:
    def embed(self, texts: list[str]) -> Iterator[Any]:
        return (np.asarray(vector, np.float32) for vector in by_function(texts))


class Called:
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return by_function(texts)


@pytest.mark.parametrize(
    ("embedder", "factor"),
    [
        (by_function, 1),
        (by_coroutine, 1),
        (lambda texts: by_coroutine([*texts]), 1),
        (partial(by_coroutine), 1),
        (Called(), 1),
        (WordEmbedder(), 1),
        (Documents(), -1),
        (AsyncDocuments(), 2),
        (Encoder(), 1),
        (Prompting(), 4),
        (Generating(), 1),
    ],
)
async def test_every_kind_of_embedder_gives_the_same(embedder: Any, factor: int) -> None:
    accepted = SpaceEmbedder(embedder, space="s")
    rows = await accepted.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.tolist() == EXPECTED
    assert accepted.dimensions == 8
    assert await accepted.embed_query("a cat") == [factor * value for value in word_vector("a cat")]


async def test_what_is_sync_runs_beside_the_event_loop() -> None:
    threads: list[int] = []

    def embed(texts: list[str]) -> list[list[float]]:
        threads.append(threading.get_ident())
        return by_function(texts)

    class Lazy:
        def embed(self, texts: list[str]) -> Iterator[list[float]]:
            for text in texts:
                threads.append(threading.get_ident())
                yield word_vector(text)

    await SpaceEmbedder(embed, space="s").embed(TEXTS)
    await SpaceEmbedder(Lazy(), space="s").embed(TEXTS)
    assert len(threads) == 4
    assert threading.get_ident() not in threads


async def test_many_texts_are_embedded_in_parts_and_none_not_at_all() -> None:
    embedder = WordEmbedder()
    space = SpaceEmbedder(embedder)
    texts = [f"text {number}" for number in range(600)]
    assert (await space.embed(texts)).tolist() == [word_vector(text) for text in texts]
    assert [len(asked) for asked in embedder.asked] == [256, 256, 88]
    assert (await space.embed([])).shape == (0, 8)
    assert len(embedder.asked) == 3


def test_the_space_has_the_name_of_its_embedder_unless_another_is_given() -> None:
    assert SpaceEmbedder(WordEmbedder("minilm")).space == "minilm"
    assert SpaceEmbedder(WordEmbedder("minilm"), space="other").space == "other"


@pytest.mark.parametrize("embedder", [by_function, Encoder(), Documents()])
def test_an_embedder_without_a_name_needs_a_space(embedder: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"^space: name the embedding space"):
        SpaceEmbedder(embedder)


@pytest.mark.parametrize("space", ["hash", "", "x" * 256, "nul\0"])
def test_names_that_no_space_can_have(space: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^space: "):
        SpaceEmbedder(by_function, space=space)
    with pytest.raises(InvalidValueError, match=r"^space: must not be 'hash'"):
        SpaceEmbedder(HashEmbedder())


@pytest.mark.parametrize("embedder", [7, "model", None, WordEmbedder, object()])
def test_what_is_no_embedder(embedder: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^embedder: must be an Embedder"):
        SpaceEmbedder(embedder, space="s")


def test_a_distance_that_does_not_exist() -> None:
    with pytest.raises(InvalidValueError, match=r"^distance: "):
        SpaceEmbedder(by_function, space="s", distance="manhattan")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0]] * 3, "3 vectors for 2 texts"),
        ([], "no list of vectors"),
        (None, "no list of vectors|no vectors"),
        ([1.0, 2.0], "no list of vectors"),
        ([[1.0, 2.0], [1.0]], r"different dimensions \(1 to 2\)"),
        ([[1.0], ["one"]], "no vectors"),
        ([[], []], "0 dimensions cannot be stored"),
        ([[1.0, float("nan")], [1.0, 2.0]], "NaN"),
        ([[1.0, 2.0], [float("inf"), 2.0]], "NaN, infinity"),
        ([[1.0, 2.0], [1e39, 2.0]], "too large for float4"),
        ([[0.0] * 16_001] * 2, "16001 dimensions cannot be stored"),
    ],
)
async def test_answers_that_cannot_be_stored(answer: Any, problem: str) -> None:
    with pytest.raises(InvalidEmbeddingError, match=problem) as raised:
        await SpaceEmbedder(lambda _: answer, space="s").embed(["one", "two"])
    assert raised.value.space == "s"


async def test_dimensions_must_stay_what_they_were_said_to_be_or_were_first() -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] * len(texts[0])]

    space = SpaceEmbedder(embed, space="s")
    await space.embed(["12345"])
    with pytest.raises(InvalidEmbeddingError, match="4 dimensions where 5 are expected"):
        await space.embed(["1234"])
    announced = WordEmbedder(dimensions=8)
    announced.dimensions = 9
    space = SpaceEmbedder(announced)
    announced.dimensions = 8
    with pytest.raises(InvalidEmbeddingError, match="8 dimensions where 9 are expected"):
        await space.embed(["one"])


async def test_what_an_embedder_raises_is_kept_as_the_cause() -> None:
    embedder = WordEmbedder()
    embedder.fails = lambda _: True
    with pytest.raises(EmbedderError, match="RuntimeError: the model is away") as raised:
        await SpaceEmbedder(embedder).embed(["one"])
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert not isinstance(raised.value, InvalidEmbeddingError)
