"""How good `recall` is on the notes of an agent in bench/data: no part of its ranking is worse than plain BM25."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from bench.questions import BM25, Conversation, measure, read_conversations

from postgres_memory import PostgresMemory, Ranking

if TYPE_CHECKING:
    from tests.conftest import Database

DATA = Path(__file__).parent.parent.parent / "bench" / "data"
#: The parts, each at the weight that changes nothing.
OFF: dict[str, Any] = {
    "context": 0.0,
    "subject": 1.0,
    "thread": 0.0,
    "question": 1.0,
    "dates": False,
    "forms": False,
}
NOTHING = Ranking(context=0, subject=1, thread=0, question=1, dates=False, forms=False)
LEXEMES = """
SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('english', $1)) AS found(lexeme, positions, weights)
"""


@pytest.fixture(scope="module")
def notes() -> Conversation:
    (conversation,) = read_conversations(DATA, "agent-notes")
    return conversation


async def bm25_of(database: Database, notes: Conversation) -> float:
    """Return the recall@10 of plain BM25 over the same lexemes."""
    connection = await asyncpg.connect(database.dsn)
    try:

        async def lexemes(text: str) -> Counter[str]:
            return Counter({row[0]: row[1] for row in await connection.fetch(LEXEMES, text)})

        index = BM25([await lexemes(turn.text) for turn in notes.turns])
        found = [
            [notes.turns[number].id for number in index.rank(list(await lexemes(asked.question)))]
            for asked in notes.questions
        ]
    finally:
        await connection.close()
    return fmean(measure(ids, asked.relevant)[1] for ids, asked in zip(found, notes.questions, strict=True))


async def fill(database: Database, memory: PostgresMemory, notes: Conversation) -> None:
    """Store the notes, and have the planner know the table, which makes this file five times as fast."""
    await memory.add_many(turn.item() for turn in notes.turns)
    connection = await asyncpg.connect(database.dsn)
    await connection.execute("VACUUM ANALYZE memory.memories")
    await connection.close()


async def recall_of(memory: PostgresMemory, notes: Conversation, ranking: Ranking) -> float:
    """Return the recall@10 of `recall`."""
    values = []
    for asked in notes.questions:
        hits = await memory.recall(asked.question, limit=10, ranking=ranking)
        values.append(measure([hit.record.id for hit in hits], asked.relevant)[1])
    return fmean(values)


async def test_no_part_makes_recall_worse_than_bm25(database: Database, notes: Conversation) -> None:
    floor = await bm25_of(database, notes)
    assert 0.5 < floor < 0.8
    async with PostgresMemory(database.dsn, subject_field="subject", access_tracking="off") as memory:
        await fill(database, memory, notes)
        whole = await recall_of(memory, notes, Ranking())
        assert whole >= floor + 0.1
        assert await recall_of(memory, notes, NOTHING) >= floor - 0.01
        for part, off in OFF.items():
            without = dataclasses.replace(Ranking(), **{part: off})
            assert await recall_of(memory, notes, without) >= floor, f"without {part}"
            alone = dataclasses.replace(NOTHING, **{part: getattr(Ranking(), part)})
            assert await recall_of(memory, notes, alone) >= floor, f"{part} alone"


async def test_unrelated_facts_are_found_as_well_as_by_bm25(database: Database, notes: Conversation) -> None:
    unrelated = notes.shuffled(seed=1)
    floor = await bm25_of(database, unrelated)
    async with PostgresMemory(database.dsn, access_tracking="off") as memory:
        await fill(database, memory, unrelated)
        assert await recall_of(memory, unrelated, Ranking()) >= floor


def test_the_notes_are_what_they_are_said_to_be(notes: Conversation) -> None:
    threads = Counter(turn.thread for turn in notes.turns)
    ids = {turn.id for turn in notes.turns}
    assert len(ids) == len(notes.turns) >= 290
    assert threads[None] == 40
    assert len(threads) == 37
    assert sum(turn.subject is None for turn in notes.turns) >= 20
    assert len(notes.questions) == 120
    assert all(asked.relevant <= ids for asked in notes.questions)
