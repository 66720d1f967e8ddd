"""Two memories of one thread that share a place, as those do that are added at the same moment."""

from __future__ import annotations

import asyncpg
import pytest

from postgres_memory import PostgresMemory, Ranking
from tests.conftest import Database

#: Only words and context count, so that scores can be compared across memories of other lengths.
PLAIN = Ranking(thread=0, question=1, subject=1)
TALK = {
    "start": "The kitchen is flooded again.",
    "left": "The plumber comes at nine.",
    "right": "Grandmother bakes a cherry cake.",
    "end": "Nobody slept well.",
}


async def talk(database: Database, memory: PostgresMemory, *, shared: bool) -> None:
    for id_, content in TALK.items():
        await memory.add(content, id=id_, thread_id="talk")
    for number in range(30):
        await memory.add(f"Note {number} says nothing.", thread_id=f"other {number}")
    if shared:
        connection = await asyncpg.connect(database.dsn)
        changed = await connection.execute(
            """UPDATE memory.memories AS m SET place = o.place FROM memory.memories AS o
            WHERE m.namespace = $1 AND o.namespace = $1 AND m.id = 'right' AND o.id = 'left'""",
            memory.namespace,
        )
        assert changed == "UPDATE 1"
        await connection.close()


async def parts(memory: PostgresMemory, query: str, *, exact: bool) -> dict[str, dict[str, float]]:
    hits = await memory.recall(query, ranking=PLAIN, exact=exact, explain=True, limit=4, min_score=1e-6)
    return {hit.record.id: dict(hit.parts) for hit in hits}


@pytest.mark.parametrize("exact", [False, True])
async def test_each_has_its_own_words_and_the_others_as_a_neighbours(database: Database, exact: bool) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await talk(database, memory, shared=True)
        found = await parts(memory, "plumber", exact=exact)
        assert set(found["left"]) == {"words"}
        assert found["right"] == {"context": pytest.approx(found["left"]["words"] / 2)}
        found = await parts(memory, "cherry cake", exact=exact)
        assert set(found["right"]) == {"words"}
        assert found["left"] == {"context": pytest.approx(found["right"]["words"] / 2)}
        both = await parts(memory, "plumber cake kitchen", exact=exact)
        assert both["left"]["words"] == pytest.approx(both["right"]["words"])
        assert both["left"]["context"] == pytest.approx(both["left"]["words"])  # half of each other word
        hits = await memory.recall("plumber", limit=2)
        assert hits[0].record.id == "left"


async def test_what_follows_a_question_at_the_same_place_is_its_answer(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await talk(database, memory, shared=True)
        await memory.update("left", content="When does the plumber come?")
        found = await parts(memory, "plumber", exact=True)
        assert found["right"] == {"context": pytest.approx(found["left"]["words"])}
        await memory.update("left", content="The plumber comes at nine.")
        await memory.update("right", content="Will there be a cherry cake?")
        found = await parts(memory, "cake", exact=True)
        assert found["left"] == {"context": pytest.approx(found["right"]["words"] / 2)}


async def test_without_context_a_twins_words_are_none(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await talk(database, memory, shared=True)
        alone = Ranking(context=0, thread=0)
        hits = await memory.recall("plumber", ranking=alone, min_score=1e-6)
        assert [hit.record.id for hit in hits] == ["left"]


async def test_a_twin_that_a_filter_leaves_out_gives_context_only(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await talk(database, memory, shared=True)
        hits = await memory.recall(
            "plumber", ranking=PLAIN, filter={"id": {"$in": ["right", "end"]}}, explain=True, min_score=1e-6
        )
        assert {hit.record.id: set(hit.parts) for hit in hits} == {"right": {"context"}, "end": {"context"}}


async def test_others_in_the_thread_get_what_they_would(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await talk(database, memory, shared=False)
        apart = await parts(memory, "kitchen", exact=False)
        async with PostgresMemory(database.dsn, namespace="shared") as other:
            await talk(database, other, shared=True)
            together = await parts(other, "kitchen", exact=False)
        assert together["left"] == apart["left"]
        assert together["right"] == apart["left"]  # as near to the start as its twin
