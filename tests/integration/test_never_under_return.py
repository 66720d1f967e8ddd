"""If ``limit`` memories match, ``limit`` come back, and the best ones, however few match and wherever they are.

The sizes from which a statement takes another way are lowered with the number of memories, so that each is taken.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from postgres_memory import Hit, MemoryRecord, Page, PostgresMemory, Ranking
from postgres_memory._recall import space
from postgres_memory._sql import nearest, word_hits
from postgres_memory._sql.compile import catalog
from postgres_memory.filters import Filter
from postgres_memory.postgres import Verbs
from postgres_memory.ranking import Preset
from tests.conftest import Database, Server

from .many_memories import (
    BARE,
    INDEXED,
    ONE_IN,
    SIZE,
    SPREAD,
    ManyTexts,
    fill,
    name,
    one_in,
    text_of,
    verbs,
)

LIMITS = (200, 1000)
QUERIES = 3
RANKINGS: dict[str, Ranking | Preset] = {
    "hybrid": Ranking(vector=0.6),
    "vector": Ranking(vector=1, lexical=0),
    "nearest": "vector",
    "lexical": Ranking(),
    "hash": Ranking(vector=1, lexical=0, space="hash"),
}


@pytest.fixture(scope="module", autouse=True)
def _in_proportion() -> Iterator[None]:
    share = min(SIZE / 100_000, 1)
    with pytest.MonkeyPatch.context() as patch:
        for module, constant in ((nearest, "_READ_THROUGH"), (word_hits, "FEW")):
            patch.setattr(module, constant, int(getattr(module, constant) * share))
        scans = tuple((most * share, ef_search, int(few * share)) for most, ef_search, few in space._SCANS)
        patch.setattr(space, "_SCANS", scans)
        catalog.cache_clear()  # statements hold these numbers
        yield
    catalog.cache_clear()


@pytest.fixture(scope="module")
def filled(server: Server, template: str) -> Iterator[Database]:
    created = asyncio.run(server.create_database(f'TEMPLATE "{template}"'))
    filled = Database(server, created)
    asyncio.run(fill(filled.direct_dsn))
    yield filled
    asyncio.run(server.drop_database(created))


@pytest.fixture(params=[BARE, INDEXED])
async def memory(filled: Database, request: pytest.FixtureRequest) -> AsyncIterator[PostgresMemory]:
    embedder = ManyTexts(request.param)
    async with PostgresMemory(filled.dsn, embedder=embedder, access_tracking="off") as opened:
        yield opened


def namespaces(spread: int) -> list[str]:
    return [name(spread, number) for number in range(0, spread, max(spread // 2, 1))][:2]


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("ranking", RANKINGS)
async def test_recall(memory: PostgresMemory, ranking: str, spread: int) -> None:
    chance = random.Random(ranking)
    same: Counter[int] = Counter()
    wanted: Counter[int] = Counter()
    for namespace in namespaces(spread):
        asked = verbs(memory, namespace)
        for share in ONE_IN:
            options: dict[str, Any] = {"filter": one_in(share), "ranking": RANKINGS[ranking]}
            matching = await asked.count(one_in(share))
            assert namespace != "all" or matching == -(-SIZE // share)
            for query in (text_of(chance, 3) for _ in range(QUERIES)):
                found = await asked.recall(query, limit=5, **options)
                exact = await asked.recall(query, limit=5, exact=True, **options)
                assert len(ids(found)) == len(ids(exact)) == len(found) == min(5, matching)
                same[share] += len(ids(found) & ids(exact))
                wanted[share] += len(exact)
            query = text_of(chance, 3)
            found, again = [await asked.recall(query, limit=5, **options) for _ in range(2)]
            assert [(hit.record.id, hit.score) for hit in again] == [
                (hit.record.id, hit.score) for hit in found
            ]
            for limit in LIMITS:
                hits = await asked.recall(query, limit=limit, **options)
                assert len(ids(hits)) == len(hits) == min(limit, matching)
                assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert same.total() >= 0.99 * wanted.total(), (same, wanted)


def ids(hits: Sequence[Hit]) -> set[str]:
    return {hit.record.id for hit in hits}


@pytest.mark.parametrize("spread", SPREAD)
async def test_find_count_and_search(memory: PostgresMemory, spread: int) -> None:
    for namespace in namespaces(spread):
        asked = verbs(memory, namespace)
        everything = [record async for page in pages(asked, None) for record in page]
        assert len(everything) == await asked.count()
        for share in ONE_IN:
            matching = [one.id for one in everything if one.metadata[f"in_{share}"] == 0]
            assert await asked.count(one_in(share)) == len(matching)
            assert [one.id async for page in pages(asked, one_in(share)) for one in page] == matching
        query = everything[0].content
        order = [entry.content for entry in await asked.search(query, len(everything))]
        for limit in (5, *LIMITS):
            found = [entry.content for entry in await asked.search(query, limit)]
            assert found == order[:limit]
            assert len(found) == min(limit, len(everything))


async def pages(asked: Verbs, condition: Filter | None) -> AsyncIterator[Page[MemoryRecord]]:
    page = await asked.find(filter=condition, order_by="created_at", limit=997)
    yield page
    while page.cursor is not None:
        page = await asked.find(filter=condition, order_by="created_at", limit=997, cursor=page.cursor)
        yield page


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_copies(database: Database, ranking: str) -> None:
    """Equal vectors are no neighbours of others in an index, which then gives little of what is nearest."""
    chance = random.Random(6)
    texts = [text_of(chance) for _ in range(100)]
    copies = max(SIZE // 100, 1)
    async with PostgresMemory(database.dsn, embedder=ManyTexts("copies"), access_tracking="off") as memory:
        await memory.add_many(chance.sample(texts * copies, 100 * copies))
        await memory.create_index("copies")
        for query in texts[:5]:
            for limit in (5, min(500, 20 * copies)):
                found = await memory.recall(query, limit=limit, ranking=RANKINGS[ranking])
                exact = await memory.recall(query, limit=limit, ranking=RANKINGS[ranking], exact=True)
                assert len(ids(found)) == limit
                if ranking in ("vector", "nearest"):
                    assert found.plan[1].endswith("since the index gave many equal vectors")
                assert [hit.record.content for hit in found] == [hit.record.content for hit in exact]
                assert {hit.record.content for hit in found[:copies]} == {query}


@pytest.mark.parametrize("limit", [5, 300])
async def test_what_others_hide_and_what_has_no_direction(
    database: Database, monkeypatch: pytest.MonkeyPatch, statements_anew: None, limit: int
) -> None:
    """The nearest in the index are another namespace's, more than are scanned; some have a vector that is zero."""
    near = [f"near {number}" for number in range(400)]
    far = [f"far {number}" for number in range(280)] + [f"zero {number}" for number in range(40)]
    vectors = {"near": [1.0, 0.1], "far": [0.1, 1.0], "zero": [0.0, 0.0]}

    def embed(given: list[str]) -> list[list[float]]:
        named = ((text.split()[0], int(text.split()[1])) for text in given)
        return [
            [one * (1 + number / 1000) if one < 1 else one for one in vectors[name]] for name, number in named
        ]

    monkeypatch.setattr(nearest, "_READ_THROUGH", 10)
    monkeypatch.setattr(nearest, "_MOST_SCANNED", 50)
    async with (
        PostgresMemory(database.dsn, namespace="others", embedder=embed, space="hidden") as others,
        PostgresMemory(database.dsn, namespace="ours", embedder=embed, space="hidden") as ours,
    ):
        await others.add_many(near)
        await ours.add_many(far)
        await ours.create_index("hidden")
        by_vector = Ranking(vector=1, lexical=0)
        hits = await ours.recall("near 0", limit=limit, ranking=by_vector)
        exact = await ours.recall("near 0", limit=limit, ranking=by_vector, exact=True)
        assert hits.plan[1].endswith("since the index gave too few that do")
        assert [hit.record.id for hit in hits] == [hit.record.id for hit in exact]
        assert len(hits) == limit
        assert hits[0].record.content == "far 279"
        assert [hit.record.content for hit in hits[280:]] == [
            f"zero {number}" for number in range(limit - 280)
        ]
        nothing = await ours.recall("zero 0", limit=limit, ranking=by_vector)
        assert nothing.plan[1] == "vector: left out, that of the query is zero"
        assert len(nothing) == limit
