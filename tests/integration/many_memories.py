"""Many memories in one table: all in one namespace, and the same ones spread over 30 and over 1,000.

``POSTGRES_MEMORY_TEST_SCALE`` says how many; by default as many as a test run has time for.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from postgres_memory import PostgresMemory
from postgres_memory.filters import Filter, field
from postgres_memory.postgres import Verbs
from tests.embedders import word_vector

SIZE = int(os.environ.get("POSTGRES_MEMORY_TEST_SCALE", "3000"))
#: Namespaces that the memories are spread over, each number of them apart.
SPREAD = (1, 30, 1000)
#: One memory in so many matches.
ONE_IN = (1, 2, 10, 100, 1000, 10_000)
BARE, INDEXED = "without an index", "with an index"
DIMENSIONS = 32

_WORDS = [f"w{number}" for number in range(3000)]
_OFTEN = [1 / (rank + 10) for rank in range(len(_WORDS))]
#: The embedder knows nothing of texts with this word.
_UNKNOWN = "nil"


@lru_cache(maxsize=8192)
def _direction(word: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(word_vector(word, DIMENSIONS))


class ManyTexts:
    """An `Embedder` of words that is fast enough for so many texts; a text with ``nil`` has a zero vector."""

    dimensions = DIMENSIONS

    def __init__(self, name: str = BARE) -> None:
        self.name = name

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [
            [0.0] * DIMENSIONS
            if _UNKNOWN in words
            else np.sum([_direction(one) for one in words], 0).tolist()
            for words in (text.split() for text in texts)
        ]


def text_of(chance: random.Random, words: int = 8) -> str:
    return " ".join(chance.choices(_WORDS, _OFTEN, k=words))


def one_in(number: int) -> Filter:
    return field("metadata", f"in_{number}").is_in([0])


def name(spread: int, number: int = 0) -> str:
    return "all" if spread == 1 else f"{number} of {spread}"


def verbs(memory: PostgresMemory, namespace: str) -> Verbs:
    return Verbs(replace(memory._context, namespace=namespace))


_SPREAD = """
WITH given AS (
    SELECT m.*, (metadata ->> 'draw')::bigint % $1 || ' of ' || $1 AS other
    FROM memory.memories m WHERE namespace = 'all'
), spaces AS (
    INSERT INTO memory.embedding_spaces (namespace, name, dimensions, status)
    SELECT DISTINCT other, 'without an index', 32, 'active' FROM given
), stored AS (
    INSERT INTO memory.memories (namespace, id, content, metadata, thread_id, place, created_at)
    SELECT other, id, content, metadata, thread_id, place, created_at FROM given ORDER BY seq
    RETURNING namespace, seq, id
), hashed AS (
    INSERT INTO memory.memory_hash_embeddings (namespace, seq, embedding)
    SELECT s.namespace, s.seq, h.embedding FROM stored s JOIN given g USING (id)
    JOIN memory.memory_hash_embeddings h ON h.namespace = 'all' AND h.seq = g.seq
)
INSERT INTO memory.memory_embeddings (namespace, space, seq, embedding)
SELECT s.namespace, v.space, s.seq, v.embedding FROM stored s JOIN given g USING (id)
JOIN memory.memory_embeddings v ON v.namespace = 'all' AND v.seq = g.seq
"""

_SAME_IN_ANOTHER_SPACE = (
    "INSERT INTO memory.embedding_spaces (namespace, name, dimensions, status) "
    "SELECT namespace, 'with an index', dimensions, 'retired' FROM memory.embedding_spaces",
    "INSERT INTO memory.memory_embeddings (namespace, space, seq, embedding) "
    "SELECT namespace, 'with an index', seq, embedding FROM memory.memory_embeddings",
    "VACUUM ANALYZE",
)


async def fill(dsn: str) -> None:
    chance = random.Random(4)
    draws = random.Random(5).sample(range(SIZE), SIZE)

    def memories() -> list[dict[str, object]]:
        return [
            {
                "content": text_of(chance) + f" {_UNKNOWN}" * (number % 97 == 0),
                "id": f"m{number}",
                "thread_id": f"t{number // 30}" if number // 30 % 3 == 0 else None,
                "metadata": {"draw": draw} | {f"in_{share}": draw % share for share in ONE_IN},
            }
            for number, draw in enumerate(draws)
        ]

    async with PostgresMemory(dsn, namespace="all", embedder=ManyTexts()) as memory:
        await memory.add_many(memories())
        async with memory._context.database.acquired() as connection:
            for spread in SPREAD[1:]:
                await connection.execute(_SPREAD, spread, timeout=600)
            for statement in _SAME_IN_ANOTHER_SPACE:
                await connection.execute(statement, timeout=600)
    async with PostgresMemory(dsn, namespace="all", embedder=ManyTexts(INDEXED)) as memory:
        await memory.create_index(INDEXED)
