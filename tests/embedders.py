"""Embedders for tests: deterministic, of any dimensions, and failing where asked to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence

import asyncpg
import numpy as np

from tests.conftest import Database


def word_vector(text: str, dimensions: int = 8) -> list[float]:
    """A vector of which words a text holds: each word has a direction of its own, an empty text none."""
    values = np.zeros(dimensions, np.float32)
    for word in text.lower().split():
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
        values += np.random.default_rng(seed).standard_normal(dimensions, np.float32)
    vector: list[float] = values.tolist()
    return vector


class WordEmbedder:
    """An `Embedder` that counts what it is asked."""

    def __init__(self, name: str = "words", dimensions: int = 8) -> None:
        self.name = name
        self.dimensions = dimensions
        self.asked: list[list[str]] = []
        self.fails: Callable[[Sequence[str]], bool] = lambda _: False
        self.delay = 0.0
        self._asked_again = asyncio.Condition()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        async with self._asked_again:
            self.asked.append(list(texts))
            self._asked_again.notify_all()
        await asyncio.sleep(self.delay)
        if self.fails(texts):
            raise RuntimeError("the model is away")
        return [word_vector(text, self.dimensions) for text in texts]

    async def has_been_asked(self, times: int) -> None:
        """Wait until then."""
        async with self._asked_again:
            await self._asked_again.wait_for(lambda: len(self.asked) >= times)


async def embeddings(
    database: Database, space: str = "words", namespace: str = "default"
) -> dict[str, list[float] | None]:
    """Every content and its embedding in a space, None where there is none."""
    connection = await asyncpg.connect(database.dsn)
    try:
        rows = await connection.fetch(
            "SELECT m.content, e.embedding::real[] AS embedding FROM memory.memories m "
            "LEFT JOIN memory.memory_embeddings e ON e.namespace = m.namespace AND e.seq = m.seq AND e.space = $2 "
            "WHERE m.namespace = $1 ORDER BY m.seq",
            namespace,
            space,
        )
    finally:
        await connection.close()
    return {row["content"]: row["embedding"] for row in rows}


async def spaces(database: Database, namespace: str = "default") -> dict[str, str]:
    """The spaces of a namespace, each with its status."""
    connection = await asyncpg.connect(database.dsn)
    try:
        rows = await connection.fetch(
            "SELECT name, status FROM memory.embedding_spaces WHERE namespace = $1 ORDER BY name", namespace
        )
    finally:
        await connection.close()
    return {row["name"]: row["status"] for row in rows}
