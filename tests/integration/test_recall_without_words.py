"""Where words weigh nothing none is looked for, and what comes back is what came back when they were."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import Hits, MemoryPermissions, PostgresMemory, Ranking
from postgres_memory._recall import recall as recalling
from postgres_memory._sql import nearest
from postgres_memory.embedding.fields import check_fields
from postgres_memory.filters import field
from postgres_memory.postgres import Verbs
from tests.conftest import Database
from tests.embedders import WordEmbedder

WORDS = ["tea", "kettle", "lamp", "garden", "rain", "storm", "piano", "harbour"]
START = datetime(2024, 5, 1, tzinfo=UTC)
FIELDS = ["content", "metadata.summary", "metadata.facts[*]"]
SIZE = 80

weights = st.sampled_from([0.0, 0.3, 1.0, 2.5])
rankings = st.builds(
    Ranking,
    vector=st.sampled_from([0.5, 1.0, 3.0]),
    lexical=st.just(0),
    question=weights,
    subject=weights,
    thread=weights,
    context=weights,
    typos=st.sampled_from([0.0, 0.7]),
    recency=st.none() | st.tuples(weights, st.just(timedelta(days=20))),
    importance=weights,
    confidence=weights,
    relations=weights,
    fusion=st.sampled_from(["sum", "rrf"]),
)
filters = st.sampled_from(
    [None, field("importance") > 0.5, field("metadata", "n").is_in([1, 2]), field("metadata", "n") == 99]
)
queries = st.lists(st.sampled_from([*WORDS, "unheard", "ann", "bo"]), max_size=4).map(" ".join)
#: What weighs nothing where the nearest are the best.
OFF: dict[str, Any] = {
    "question": 1.0,
    "subject": 1.0,
    "thread": 0.0,
    "context": 0.0,
    "recency": None,
    "importance": 0.0,
    "confidence": 0.0,
    "relations": 0.0,
    "fusion": "sum",
}
least = st.none() | st.sampled_from([-1.0, 0.0, 0.2, 1.0])


@pytest.fixture(autouse=True)
def _by_an_index_of_few(monkeypatch: pytest.MonkeyPatch, statements_anew: None) -> None:
    monkeypatch.setattr(nearest, "_READ_THROUGH", 5)


def _given(chance: random.Random, number: int, *, threads: bool) -> dict[str, Any]:
    def text() -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))

    return {
        "content": text() + chance.choice(["", "", "?", "? "]),
        "id": f"m{number}",
        "thread_id": chance.choice([None, "one", "two"]) if threads else None,
        "metadata": {"n": number % 10, "speaker": chance.choice(["Ann", "Bo"]), "summary": text()}
        | {"facts": [text() for _ in range(chance.randint(0, 2))]},
        "importance": chance.random(),
        "confidence": chance.random(),
        "created_at": START + timedelta(days=chance.randint(0, 90)),
        "permissions": MemoryPermissions(chance.choice(["alice", "bob"])),
    }


@pytest.fixture(params=[True, False], ids=["with threads", "without threads"])
async def memory(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[PostgresMemory]:
    """Some memories, some of which no vector can find where none is in a thread, on an index."""
    embedder, chance = WordEmbedder(), random.Random(7)
    async with PostgresMemory(
        database.dsn,
        embedder=embedder,
        subject_field="speaker",
        embedded_fields=FIELDS,
        access_tracking="off",
    ) as memory:
        for number in range(SIZE):
            embedder.fails = lambda _, fails=not request.param and number % 9 == 8: fails  # type: ignore[misc]
            await memory.add(**_given(chance, number, threads=request.param))
        embedder.fails = lambda _: False
        for _ in range(40):
            source, target = chance.sample(range(SIZE), 2)
            kind = chance.choice(["supports", "extends", "contradicts"])
            await memory.relate(f"m{source}", f"m{target}", kind, confidence=chance.random())
        await memory.create_index("words")
        yield memory


def assert_same(found: Hits, as_it_was: Hits) -> None:
    """The order in which similarities were added shows in the last bits of a part, but not of a score."""
    for hit, before in zip(found, as_it_was, strict=True):
        assert (hit.record, hit.score, hit.field) == (before.record, before.score, before.field)
        assert hit.parts == pytest.approx(before.parts, abs=1e-12)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
async def test_as_with_words(memory: PostgresMemory, data: st.DataObject) -> None:
    verbs: Verbs = memory
    if data.draw(st.booleans(), "for a principal"):
        verbs = memory.as_principal("alice")
    if data.draw(st.booleans(), "by the content alone"):
        verbs = Verbs(replace(verbs._context, fields=check_fields(["content"])))
    if data.draw(st.booleans(), "without subjects"):
        verbs = Verbs(replace(verbs._context, subject_field=None))
    ranking = data.draw(rankings, "ranking")
    alone = data.draw(st.booleans(), "the vector alone")
    if alone:
        ranking = replace(ranking, **OFF)
    options: dict[str, Any] = {
        "ranking": ranking,
        "filter": data.draw(filters, "filter"),
        "limit": data.draw(st.sampled_from([1, 5, 20, 79, 200, 600]), "limit"),
        "exact": data.draw(st.booleans(), "exact"),
        "min_score": data.draw(least, "min_score"),
        "as_of": START + timedelta(days=100),
    }
    query = data.draw(queries.filter(bool), "query")
    found = await verbs.recall(query, explain=True, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recalling, "_beside_vectors", lambda context, ranking: (True, True, True))
        as_it_was = await verbs.recall(query, explain=True, **options)
    assert_same(found, as_it_was)
    # Where there is the vector alone, an index is asked for less, and may have that.
    assert alone or found.plan[1:] == as_it_was.plan[1:]
