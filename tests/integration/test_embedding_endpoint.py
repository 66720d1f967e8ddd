"""`EndpointEmbedder` against a real HTTP server that speaks OpenAI's embeddings API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.embedding.spaces import SpaceEmbedder
from postgres_memory.errors import EmbedderError, InvalidEmbeddingError, InvalidValueError
from tests.conftest import Database
from tests.embedders import embeddings, word_vector

pytest.importorskip("httpx")
pytest.importorskip("stamina")

from postgres_memory.embedding.endpoint import EndpointEmbedder

from .embedding_server import Endpoint, served_endpoint


@pytest.fixture
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    with served_endpoint() as served:
        yield served


async def test_texts_go_in_batches_and_vectors_come_back_in_their_order(
    endpoint: tuple[Endpoint, str],
) -> None:
    served, url = endpoint
    texts = [f"text {number}" for number in range(7)]
    async with EndpointEmbedder("m", url=url + "/", api_key="secret", batch_size=3) as embedder:
        assert await embedder.embed(texts) == [word_vector(text) for text in texts]
        assert await embedder.embed([]) == []
        assert "secret" not in repr(embedder)
        assert embedder.name == "m"
    assert sorted(len(request["input"]) for request in served.requests) == [1, 3, 3]
    assert {request["model"] for request in served.requests} == {"m"}
    assert set(served.keys) == {"Bearer secret"}


async def test_dimensions_are_asked_for_and_named(endpoint: tuple[Endpoint, str]) -> None:
    served, url = endpoint
    async with EndpointEmbedder("m", url=url, dimensions=5) as embedder:
        assert (embedder.name, embedder.dimensions) == ("m:5", 5)
        assert await embedder.embed(["a"]) == [word_vector("a", 5)]
    assert served.requests[0]["dimensions"] == 5
    async with EndpointEmbedder("m", url=url, name="mine") as embedder:
        await embedder.embed(["a"])
        assert embedder.name == "mine"
    assert "dimensions" not in served.requests[1]


async def test_what_may_pass_is_tried_again(endpoint: tuple[Endpoint, str]) -> None:
    served, url = endpoint
    answers = {1: (429, {"retry-after": "0.3"}), 2: (503, {}), 3: (500, {})}
    served.refuse = answers.get
    async with EndpointEmbedder("m", url=url) as embedder:
        assert await embedder.embed(["a"]) == [word_vector("a")]
    assert len(served.requests) == 4
    assert served.begun[1] - served.begun[0] >= 0.3


@pytest.mark.parametrize(
    ("answer", "asked"),
    [((401, {}), 1), ((400, {}), 1), ((429, {"retry-after": "3600"}), 1), ((503, {"retry-after": "0"}), 3)],
)
async def test_what_does_not_pass_is_an_error_that_says_what_the_server_said(
    endpoint: tuple[Endpoint, str], answer: tuple[int, dict[str, str]], asked: int
) -> None:
    served, url = endpoint
    served.refuse = lambda _: answer
    async with EndpointEmbedder("m", url=url, attempts=3) as embedder:
        with pytest.raises(EmbedderError, match=f"the endpoint answered {answer[0]}: .*no, because"):
            await SpaceEmbedder(embedder).embed(["a"])
    assert len(served.requests) == asked


async def test_an_endpoint_that_is_not_there_and_one_that_is_too_slow(endpoint: tuple[Endpoint, str]) -> None:
    served, url = endpoint
    async with EndpointEmbedder("m", url="http://127.0.0.1:9", attempts=2) as embedder:
        with pytest.raises(EmbedderError, match="cannot be reached: ConnectError"):
            await embedder.embed(["a"])
    served.delay = 1
    async with EndpointEmbedder("m", url=url, attempts=1, timeout=0.2) as embedder:
        with pytest.raises(EmbedderError, match="cannot be reached: ReadTimeout"):
            await embedder.embed(["a"])


@pytest.mark.parametrize(
    "spoil",
    [lambda _: {}, lambda _: [], lambda data: {"data": data[1:]}, lambda data: {"data": [{}] * len(data)}],
)
async def test_an_answer_of_another_shape(endpoint: tuple[Endpoint, str], spoil: Any) -> None:
    served, url = endpoint
    served.spoil = spoil
    async with EndpointEmbedder("m", url=url) as embedder:
        with pytest.raises(InvalidEmbeddingError, match="something else than their embeddings"):
            await embedder.embed(["a", "b"])


async def test_requests_keep_to_their_number_and_their_rate(endpoint: tuple[Endpoint, str]) -> None:
    served, url = endpoint
    served.delay = 0.1
    texts = [str(number) for number in range(8)]
    async with EndpointEmbedder("m", url=url, batch_size=1, concurrency=3) as embedder:
        await embedder.embed(texts)
    assert served.most_under_way == 3
    served.begun.clear()
    async with EndpointEmbedder("m", url=url, batch_size=1, requests_per_second=20) as embedder:
        await asyncio.gather(embedder.embed(texts[:4]), embedder.embed(texts[4:]))
    assert served.begun[-1] - served.begun[0] >= 0.3
    with pytest.raises(InvalidValueError, match=r"^requests_per_second: "):
        EndpointEmbedder("m", requests_per_second=0)


async def test_a_memory_writes_what_an_endpoint_embeds(
    endpoint: tuple[Endpoint, str], database: Database
) -> None:
    _, url = endpoint
    async with (
        EndpointEmbedder("words", url=url) as embedder,
        PostgresMemory(database.dsn, embedder=embedder) as memory,
    ):
        await memory.store("one")
    assert await embeddings(database) == {"one": word_vector("one")}
