"""Fusion by ranks and what relations add to a recall, against their definitions in Python."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory, Ranking
from postgres_memory._sql import pulling
from postgres_memory._sql.compile import catalog
from postgres_memory._sql.scoring import RANKS
from postgres_memory.filters import field
from postgres_memory.records import MemoryRelationType

from . import recall_model
from .recall_model import Related, rank, relate
from .test_recall import Corpus, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postgres_memory.recall_records import Hits
    from tests.conftest import Database


@pytest.fixture(autouse=True)
def statements_anew() -> Iterator[None]:
    """Have the statements of each test built with the constants of the test."""
    catalog.cache_clear()
    yield
    catalog.cache_clear()


def by_letters(texts: list[str]) -> list[list[float]]:
    """Embed by how often some letters occur; never a zero vector."""
    return [[1.0, *(float(text.count(letter)) for letter in "aeiotn")] for text in texts]


def ranks(hits: Hits, *parts: str) -> dict[str, int]:
    """Return the rank of each hit by the sum of some parts; equals share one."""
    sums = {hit.record.id: round(math.fsum(hit.parts.get(part, 0.0) for part in parts), 10) for hit in hits}
    return {id_: 1 + sum(other > one for other in sums.values()) for id_, one in sums.items() if one > 0}


OF_WORDS = ("words", "context", "question")


@pytest.mark.parametrize("seed", range(3))
async def test_fusion_by_ranks(database: Database, seed: int) -> None:
    connection = await asyncpg.connect(database.dsn)
    corpus = Corpus(seed, 50)
    async with PostgresMemory(
        database.dsn, subject_field="speaker", embedder=by_letters, space="letters"
    ) as memory:
        await corpus.store(memory, connection)
        for weights in ((1.0, 1.0), (1.0, 0.5), (2.0, 1.0)):
            query = corpus.query() + " garden"
            # What is found by its vector alone takes part in thread and subject: without them, both legs are apart.
            of_words = Ranking(thread=0, subject=1)
            plain = await memory.recall(query, limit=50, ranking=of_words, explain=True, exact=True)
            alone = replace(of_words, lexical=0, vector=1, question=1)
            near = await memory.recall(query, limit=50, ranking=alone, explain=True, exact=True)
            by_words, by_vector = ranks(plain, *OF_WORDS), ranks(near, "vector")
            # The least similar has the part 0, which is not shown, and the last rank.
            last = {hit.record.id: len(by_vector) + 1 for hit in near if hit.record.id not in by_vector}
            both = replace(of_words, lexical=weights[0], vector=weights[1], fusion="rrf")
            hits = await memory.recall(query, limit=50, ranking=both, explain=True, exact=True)
            assert len(hits) == 50
            for hit in hits:
                id_ = hit.record.id
                word_rank = weights[0] * (RANKS + 1) / (RANKS + by_words[id_]) if id_ in by_words else 0.0
                of_vector = weights[1] * (RANKS + 1) / (RANKS + (by_vector | last)[id_])
                assert hit.score == pytest.approx(word_rank + of_vector, abs=1e-9)
                assert hit.parts["vector"] == pytest.approx(of_vector, abs=1e-9)
                assert math.fsum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
            for hit in await memory.recall(
                query, limit=50, ranking=Ranking(vector=1, fusion="rrf"), explain=True
            ):
                assert math.fsum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
                assert 0 < hit.score <= 2
    await connection.close()


async def test_ranks_without_an_embedder_are_the_sum(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add_many(["green tea", "black tea", "tea"])
        by_rank = await memory.recall("green tea", ranking=Ranking(vector=1, fusion="rrf"))
        assert by_rank == await memory.recall("green tea", ranking=Ranking())


async def relate_at_random(memory: PostgresMemory, corpus: Corpus, number: int) -> list[Related]:
    """Store relations between memories of the corpus, and return them."""
    kinds = ("supports", "extends", "contradicts", "related")
    relations: dict[tuple[str, str, str], Related] = {}
    for _ in range(number):
        source, target = corpus.random.sample([held.id for held in corpus.memories], 2)
        one = Related(source, target, corpus.random.choice(kinds), round(corpus.random.random(), 2))
        await memory.relate(source, target, MemoryRelationType(one.kind), confidence=one.confidence)
        relations[source, target, one.kind] = one
    return list(relations.values())


@pytest.mark.parametrize("seed", range(4))
async def test_relations_pull_and_push_as_the_model_does(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pulling, recall_model):
        monkeypatch.setattr(module, "FIRST", 7)
    connection = await asyncpg.connect(database.dsn)
    corpus = Corpus(seed, 50)
    async with PostgresMemory(database.dsn, subject_field="speaker") as memory:
        await corpus.store(memory, connection)
        relations = await relate_at_random(memory, corpus, 60)
        for weight in (0.3, 1.0, 3.0):
            ranking = Ranking(relations=weight)
            query = corpus.query()
            words, names = await words_of(connection, memory.namespace, query)
            scores = rank(corpus.memories, words, names, ranking) if any(words) else {}
            wanted = relate(corpus.memories, scores, relations, weight)
            for exact in (False, True):
                hits = await memory.recall(query, limit=50, ranking=ranking, explain=True, exact=exact)
                assert len(hits) == 50
                for hit in hits:
                    assert hit.score == pytest.approx(wanted.get(hit.record.id, 0.0), abs=1e-9), query
                    assert math.fsum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
    await connection.close()


async def test_relations_bring_in_only_what_may_be_seen(database: Database) -> None:
    by_relations = Ranking(relations=0.5)
    async with (
        PostgresMemory(database.dsn, namespace="one") as memory,
        PostgresMemory(database.dsn, namespace="two") as other,
    ):
        for number in range(30):
            await memory.add(f"filling {number}")
        for one in (memory, other):
            await one.add("zebras graze", id="hit")
        for id_ in ("seen", "archived", "unlike"):
            await memory.add(f"wholly {id_}", id=id_, tags=[] if id_ == "unlike" else ["some"])
        gone = datetime.now(UTC) + timedelta(hours=1)
        await memory.add("wholly gone", id="expiring", tags=["some"], expires_at=gone)
        await other.add("wholly elsewhere", id="elsewhere", tags=["some"])
        await other.relate("elsewhere", "hit", MemoryRelationType.SUPPORTS)
        for id_ in ("seen", "archived", "unlike", "expiring"):
            await memory.relate(id_, "hit", MemoryRelationType.SUPPORTS)
        await memory.archive("archived")
        asked: dict[str, Any] = {"ranking": by_relations, "min_score": 0.01, "explain": True}
        found = await memory.recall("zebras", **asked)
        assert [hit.record.id for hit in found] == ["hit", "seen", "unlike", "expiring"]
        assert found[1].parts == {"relations": pytest.approx(0.5 * found[0].score)}
        later = await memory.recall("zebras", as_of=gone + timedelta(seconds=1), **asked)
        assert [hit.record.id for hit in later] == ["hit", "seen", "unlike"]
        await memory.update("hit", tags=["some"])
        some = await memory.recall("zebras", filter=field("tags").contains("some"), **asked)
        assert [hit.record.id for hit in some] == ["hit", "seen", "expiring"]
        assert [hit.record.id for hit in await other.recall("zebras", **asked)] == ["hit", "elsewhere"]
        assert [hit.record.id for hit in await memory.recall("zebras", min_score=0.01)] == ["hit"]


async def test_what_is_contradicted_loses(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add("the office is in Porto", id="old")
        await memory.add("the office is in Lisbon", id="new")
        await memory.relate("new", "old", MemoryRelationType.CONTRADICTS, confidence=0.8)
        plain = await memory.recall("Where is the office?")
        assert [hit.record.id for hit in plain] == ["old", "new"]
        for weight, share in ((0.5, 0.4), (1.0, 0.8), (9.0, 1.0)):
            hits = await memory.recall(
                "Where is the office?", ranking=Ranking(relations=weight), explain=True
            )
            assert [hit.record.id for hit in hits] == ["new", "old"]
            assert hits[1].parts["relations"] == pytest.approx(-share * plain[0].score)
        await memory.archive("new")
        (left,) = await memory.recall("Where is the office?", ranking=Ranking(relations=1.0))
        assert left.score == plain[0].score


async def test_a_hub_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "MOST_RELATIONS", 3)
    async with PostgresMemory(database.dsn, namespace="hub") as memory:
        await memory.add("the zebra", id="hub")
        confidences = random.Random(1).sample(range(100), 10)
        for number, confidence in enumerate(confidences):
            await memory.add(f"note {number}", id=f"n{number}")
            await memory.relate(f"n{number}", "hub", MemoryRelationType.EXTENDS, confidence=confidence / 100)
        hits = await memory.recall("zebra", ranking=Ranking(relations=0.5), min_score=1e-6)
        best = sorted(range(10), key=lambda number: -confidences[number])[:3]
        assert [hit.record.id for hit in hits] == ["hub", *(f"n{number}" for number in best)]
