"""`recall`: the ranking against a model of it, nothing missing under filters, parts that add up."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from postgres_memory import PostgresMemory, Ranking
from postgres_memory._recall.question import read_question
from tests.conftest import Database

from .recall_model import Held, rank

VOCABULARY = [
    "tea",
    "coffee",
    "garden",
    "garden",
    "river",
    "mountain",
    "river",
    "swim",
    "swam",
    "went",
    "go",
    "children",
    "child",
    "paint",
    "painted",
    "london",
    "paris",
    "monday",
    "may",
    "2023",
    "31st",
    "31",
    "music",
    "guitar",
    "dog",
    "cat",
    "birthday",
    "cake",
    "train",
    "ticket",
    "hotel",
    "museum",
    "picture",
    "storm",
]
SPEAKERS = ("Ann", "Bo", "Mary Jane")
START = datetime(2023, 5, 1, 12, tzinfo=UTC)


class Corpus:
    """Random memories, some in threads, and what the model needs of them."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.memories: list[Held] = []
        self.size = size

    async def store(self, memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        positions: dict[str, int] = {}
        for number in range(self.size):
            words = self.random.choices(VOCABULARY, k=self.random.randint(0, 9))
            content = " ".join(words) + self.random.choice(["", "", "?", ".", "? "])
            thread = self.random.choice([None, "one", "two", "three"])
            speaker = self.random.choice([None, *SPEAKERS])
            stored = await memory.add(
                content,
                id=f"m{number}",
                thread_id=thread,
                metadata={} if speaker is None else {"speaker": speaker},
                created_at=START + timedelta(days=self.random.randint(0, 400)),
            )
            terms = await connection.fetchval(
                "SELECT memory.lexical_terms($1, 'english', $2, $3)",
                memory.namespace,
                content,
                stored.created_at,
            )
            position = positions.get(thread or "", 0)
            positions[thread or ""] = position + 1
            subject = None if speaker is None else speaker.lower()
            self.memories.append(Held(f"m{number}", content, frozenset(terms), thread, position, subject))

    def query(self) -> str:
        words = self.random.choices(
            [*VOCABULARY, "what", "did", "the", "unheard", *SPEAKERS], k=self.random.randint(1, 7)
        )
        return " ".join(words) + self.random.choice(["", "?"])


async def words_of(
    connection: asyncpg.Connection[asyncpg.Record], namespace: str, query: str
) -> tuple[list[frozenset[str]], Sequence[str]]:
    """Return the terms of each word of a query, as the statement is given them."""
    question = read_question(query, forms=True, dates=True)
    mark = (await connection.fetchval("SELECT memory.lexical_terms($1, 'simple', '', now())", namespace))[0][
        :4
    ]
    groups: dict[int, set[str]] = {}
    for word, group, dated in zip(question.words, question.groups, question.dated, strict=True):
        terms = await connection.fetchval(
            "SELECT trim_array(memory.lexical_terms($1, 'english', $2, now()), 4)", namespace, word
        )
        groups.setdefault(group, set()).update([mark + word] if dated else terms)
    return [frozenset(terms) for terms in groups.values()], question.names


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("exact", [False, True])
async def test_ranks_as_the_model_does(database: Database, seed: int, exact: bool) -> None:
    connection = await asyncpg.connect(database.dsn)
    corpus = Corpus(seed, 60)
    rankings = (
        Ranking(),
        Ranking(context=0.5, subject=1, thread=0, question=1, brevity=0),
        Ranking(context=0, thread=1),
    )
    async with PostgresMemory(database.dsn, namespace=f"n{seed}", subject_field="speaker") as memory:
        await corpus.store(memory, connection)
        for turn in range(12):
            query, ranking = corpus.query(), rankings[turn % 3]
            words, names = await words_of(connection, memory.namespace, query)
            wanted = rank(corpus.memories, words, names, ranking) if any(words) else {}
            hits = await memory.recall(query, limit=60, ranking=ranking, exact=exact, explain=True)
            found = {hit.record.id: hit.score for hit in hits}
            assert len(found) == len(hits) == 60, (query, len(hits), [hit.record.id for hit in hits])
            for id_, score in found.items():
                assert score == pytest.approx(wanted.get(id_, 0.0), abs=1e-9), (
                    query,
                    [m for m in corpus.memories if m.id == id_],
                )
            order = [(-round(hit.score, 9), int(hit.record.id[1:])) for hit in hits]
            assert order == sorted(order), query
            for hit in hits:
                assert math.fsum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
    await connection.close()
