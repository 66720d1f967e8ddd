"""`recall` at its limits: numbers near the ends, many equals, words that nobody holds, exact where it says so."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from postgres_memory import PostgresMemory, Ranking
from postgres_memory.embedding.protocol import Distance
from tests.conftest import Database


async def test_words_that_nobody_holds_lead_nowhere(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add_many(f"note {number}" for number in range(1500))
        await memory.add_many(f"a garden {number:04}" for number in range(1200))
        await memory.add("the zebra")
        for query in ("unheard untold garden", "unheard zebra garden a", "untold unheard zebra garden"):
            hits = await memory.recall(query, limit=8, min_score=0.001)
            assert len(hits) == 8
            exact = await memory.recall(query, limit=8, exact=True)
            assert [hit.score for hit in hits] == [hit.score for hit in exact]


async def test_a_filter_that_many_match_and_a_score_leave_what_there_is(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add_many(f"tea cake {number}" for number in range(1500))
        await memory.add_many({"content": f"note {number}", "tags": ["some"]} for number in range(2500))
        await memory.add_many({"content": f"tea {number}", "tags": ["some"]} for number in range(30))
        found = await memory.recall("tea cake", limit=20, filter={"tags": ["some"]}, min_score=0.01)
        assert len(found) == 20
        assert all(hit.record.content.startswith("tea") for hit in found)


async def test_equals_come_in_insertion_order_however_many(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        ids = [f"{number}" for number in range(2000)]
        await memory.add_many({"content": "blue whale", "id": id_} for id_ in ids)
        for exact in (False, True):
            hits = await memory.recall("whale", limit=5, exact=exact)
            assert [hit.record.id for hit in hits] == ids[:5]


async def test_exact_looks_at_all_that_hold_a_word(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add_many(f"tea, and a piece of cake {number}" for number in range(500))
        await memory.add("tea", id="important", importance=1.0)
        hits = await memory.recall("tea cake", limit=1, exact=True, ranking=Ranking(importance=5))
        assert [hit.record.id for hit in hits] == ["important"]


@pytest.mark.parametrize("weight", [1e-6, 1e6])
async def test_no_weight_limit_or_age_is_too_much_for_the_server(database: Database, weight: float) -> None:
    async with PostgresMemory(database.dsn, subject_field="by") as memory:
        for age in (0, 1, 400_000):
            await memory.add(
                "tea?", created_at=datetime.now(UTC) - timedelta(days=age), metadata={"by": "ann"}
            )
        await memory.add("", thread_id="t")
        names = ("vector", "lexical", "context", "subject", "thread", "question", "relations", "importance")
        for half_life in (timedelta(microseconds=1), timedelta(hours=1), timedelta(days=365_250)):
            weights: dict[str, Any] = dict.fromkeys(names, weight) | {"recency": (weight, half_life)}
            ranking = Ranking(**weights)
            for limit in (1, 2**31, 2**63 - 1, 10**30):
                hits = await memory.recall("Ann's tea", limit=limit, ranking=ranking)
                assert len(hits) == min(limit, 4)
                assert all(math.isfinite(hit.score) for hit in hits)


@pytest.mark.parametrize("distance", ["cosine", "l2", "inner_product"])
async def test_vectors_of_any_size_give_a_score(database: Database, distance: Distance) -> None:
    def huge(texts: list[str]) -> list[list[float]]:
        return [[3e38, 3e38 if "tea" in text else -3e38, 0.0] for text in texts]

    async with PostgresMemory(database.dsn, embedder=huge, space="huge", distance=distance) as memory:
        await memory.add_many(
            ["tea", "cake", {"content": "tea", "thread_id": "t"}, {"content": "a", "thread_id": "t"}]
        )
        hits = await memory.recall("green tea", explain=True)
        assert len(hits) == 4
        assert all(math.isfinite(hit.score) for hit in hits)
        assert hits[0].record.content == "tea"
