"""A filter that kept many memories is taken to do so for a while, and nothing is missing where it does no more."""

from __future__ import annotations

from math import inf

import pytest

from postgres_memory import HashEmbedder, Hits, PostgresMemory
from postgres_memory._recall import space
from postgres_memory._sql import nearest
from postgres_memory.filters import field
from postgres_memory.postgres import Verbs
from tests.conftest import Database

MANY, FEW = "since many memories match", "since few do"
QUERY = "the harbour in the evening"
kind_is = field("metadata", "kind")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, statements_anew: None) -> None:
    monkeypatch.setattr(nearest, "_READ_THROUGH", 10)
    monkeypatch.setattr(space, "_SCANS", ((inf, 40, 60),))


async def filled(database: Database, namespace: str = "default") -> PostgresMemory:
    memory = PostgresMemory(database.dsn, namespace=namespace, embedder=HashEmbedder(), space="small")
    await memory.add_many(
        {
            "content": f"note {number} of the harbour {number % 7}",
            "metadata": {
                "kind": "often" if number % 2 else "seldom" if number % 40 == 0 else "never",
                "n": number,
            },
        }
        for number in range(400)
    )
    await memory.create_index("small")
    return memory


async def asked(memory: Verbs, kind: str, *, limit: int = 5, exact: bool = False) -> Hits:
    return await memory.recall(QUERY, limit=limit, filter=kind_is == kind, ranking="vector", exact=exact)


def found(hits: Hits) -> list[tuple[str, float]]:
    return [(hit.record.id, hit.score) for hit in hits]


def remembered(memory: PostgresMemory) -> int:
    embedder = memory._context.embedder
    assert embedder is not None
    (known,) = space._known[embedder].values()
    return len(known.keeping_many)


async def test_what_is_found_is_the_same_counted_or_not(database: Database) -> None:
    async with await filled(database) as memory:
        first = await asked(memory, "often")
        assert (first.plan[-1].endswith(MANY), remembered(memory)) == (True, 1)
        again = await asked(memory, "often")
        assert again.plan == first.plan
        assert found(again) == found(first) == found(await asked(memory, "often", exact=True))
        few = await asked(memory, "seldom")
        assert (few.plan[-1].endswith(FEW), remembered(memory)) == (True, 1)
        assert found(few) == found(await asked(memory, "seldom", exact=True))


async def test_nothing_is_missing_where_few_are_left(database: Database) -> None:
    async with await filled(database) as memory:
        await asked(memory, "often")
        async with memory.transaction() as inside:
            assert await inside.delete_many((kind_is == "often") & (field("metadata", "n") > 12)) == 194
            left = {record.id for record in (await inside.find(filter=kind_is == "often")).items}
            assert {one for one, _ in found(await asked(inside, "often", limit=9))} == left
        assert {one for one, _ in found(await asked(memory, "often", limit=9))} == left
        assert remembered(memory) == 0
        assert (await asked(memory, "often")).plan[-1].endswith(FEW)


async def test_principals_are_told_apart(database: Database) -> None:
    async with await filled(database) as memory:
        await asked(memory, "often")
        someone = memory.as_principal("someone")
        assert found(await asked(someone, "often")) == []
        await someone.add("a note of the harbour", metadata={"kind": "often"})
        (hit,) = await asked(someone, "often")
        assert hit.record.permissions.owner == "someone"
        assert remembered(memory) == 1
        assert len(await asked(memory, "often")) == 5


async def test_so_many_are_remembered(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_REMEMBERED_FILTERS", 3)
    async with await filled(database) as memory:
        for number in range(8):
            condition = (kind_is == "often") | (kind_is == f"unknown {number}")
            assert len(await memory.recall(QUERY, limit=5, filter=condition, ranking="vector")) == 5
            assert 1 <= remembered(memory) <= 3
