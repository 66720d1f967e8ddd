"""Misspelt words of a query: read as the nearest words that the namespace is known to hold, where pg_trgm is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from postgres_memory import KnownWords, PostgresMemory, Ranking
from postgres_memory.errors import InvalidValueError
from postgres_memory.postgres import Verbs
from tests.conftest import Database

TYPOS = Ranking(typos=0.7)
NOTES = {
    "plumber": "The plumber replaced the valve under the kitchen sink.",
    "garden": "The garden hose leaks at the valve.",
    "rent": "Rent is due on the third of each month.",
    "dentist": "The appointment at the dentist is on Thursday.",
    "plum": "Plum jam is on the upper shelf.",
}


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(database.dsn)
    yield opened
    await opened.close()


@pytest.fixture
async def memory(
    database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[PostgresMemory]:
    """Notes in a database that has pg_trgm, in a schema of a name that needs quotes."""
    await connection.execute('CREATE SCHEMA "Tri Grams"')
    await connection.execute('CREATE EXTENSION pg_trgm SCHEMA "Tri Grams"')
    async with PostgresMemory(database.dsn) as opened:
        for id_, content in NOTES.items():
            await opened.add(content, id=id_)
        yield opened


async def ids(memory: Verbs, query: str, typos: float = 0.7) -> list[str]:
    hits = await memory.recall(query, min_score=0.01, ranking=Ranking(typos=typos))
    return [hit.record.id for hit in hits]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What did the plubmer do?", "plumber"),
        ("Who replacd it?", "plumber"),
        ("the kitchenn", "plumber"),
        ("Where is my appointmnet?", "dentist"),
        ("lpumber", "plumber"),
        ("ddentist", "dentist"),
        ("Is the THRUSDAY free?", "dentist"),
    ],
)
async def test_reads_a_misspelt_word_as_the_nearest(memory: PostgresMemory, query: str, found: str) -> None:
    assert await ids(memory, query) == []
    await memory.refresh_words()
    assert (await ids(memory, query))[:1] == [found]
    assert await ids(memory, query, typos=0) == []


async def test_counts_words(memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]) -> None:
    counts = await memory.refresh_words()
    rows = await connection.fetch("SELECT word, memories FROM memory.known_words WHERE namespace = 'default'")
    stored: dict[str, int] = {row["word"]: row["memories"] for row in rows}
    assert stored["valve"] == 2
    assert stored["plumber"] == 1
    assert not {"on", "@monday", "2"} & set(stored)
    assert counts == KnownWords(len(stored), added=len(stored), gone=0, comparable=True)
    assert await memory.refresh_words() == KnownWords(len(stored), added=0, gone=0, comparable=True)
    await memory.archive("plumber")
    await memory.add("A letter from the museum.")
    assert await memory.refresh_words() == KnownWords(
        len(stored) - 5 + 3, added=3, gone=5, comparable=True
    )  # plumber, replaced, under, kitchen, sink; letter, from, museum
    assert await connection.fetchval("SELECT memories FROM memory.known_words WHERE word = 'valve'") == 1


async def test_lagging_never_misleads(memory: PostgresMemory) -> None:
    await memory.refresh_words()
    await memory.delete("plumber")
    await memory.add("The electrician comes on Friday.", id="electrician")
    assert await ids(memory, "the electrician") == ["electrician"]
    assert await ids(memory, "the plumber") == []
    assert await ids(memory, "the plubmer") == []
    await memory.refresh_words()
    assert await ids(memory, "the electirician") == ["electrician"]


async def test_a_word_that_is_found_is_not_replaced(memory: PostgresMemory) -> None:
    await memory.add("A plumer is a maker of feathers.", id="plumer")
    await memory.refresh_words()
    hits = await memory.recall("plumer", min_score=0.01, ranking=TYPOS)
    assert [hit.record.id for hit in hits] == ["plumer"]
    assert not any(sentence.startswith("typos") for sentence in hits.plan)


async def test_counts_less_than_the_word_itself_and_says_so(memory: PostgresMemory) -> None:
    await memory.refresh_words()
    (right, *_) = await memory.recall("plumber kitchen", limit=1, explain=True)
    misspelt = await memory.recall("plubmer kitchen", limit=1, explain=True, ranking=TYPOS)
    assert misspelt[0].record.id == right.record.id == "plumber"
    share = TYPOS.typos
    assert misspelt[0].parts["words"] == pytest.approx(right.parts["words"] * (1 + share) / 2)
    assert misspelt.plan[1] == 'typos: no memory holds "plubmer", read as "plumber"'
    whole = await memory.recall("plubmer kitchen", limit=1, explain=True, ranking=Ranking(typos=1.0))
    assert whole[0].score == pytest.approx(right.score)


async def test_all_forms_of_recall_replace(memory: PostgresMemory) -> None:
    await memory.refresh_words()
    for exact in (False, True):
        for condition in (None, {"id": {"$in": ["plumber", "rent"]}}):
            hits = await memory.recall(
                "plubmer", filter=condition, exact=exact, limit=1, min_score=0.01, ranking=TYPOS
            )
            assert [hit.record.id for hit in hits] == ["plumber"], (exact, condition)


async def test_namespaces_know_their_own_words(memory: PostgresMemory, database: Database) -> None:
    await memory.refresh_words()
    async with PostgresMemory(database.dsn, namespace="other") as other:
        await other.add("The plumber is ill.")
        assert await ids(other, "plubmer") == []
        await other.refresh_words()
        assert len(await ids(other, "plubmer")) == 1
        await other.clear()
        assert (await other.refresh_words()).words == 0
    assert await ids(memory, "plubmer") == ["plumber"]


async def test_clear_forgets_the_words(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await memory.refresh_words()
    await memory.clear()
    assert await connection.fetchval("SELECT count(*) FROM memory.known_words") == 0


async def test_in_a_transaction_and_sync(memory: PostgresMemory, database: Database) -> None:
    async with memory.transaction() as inside:
        await inside.add("An umbrella stands in the hall.", id="umbrella")
        assert (await inside.refresh_words()).added > 0
        assert await ids(memory, "umbrlela") == []

    def synchronous() -> tuple[int, list[str]]:
        with PostgresMemory(database.dsn).sync as sync:
            found = [hit.record.id for hit in sync.recall("umbrlela", min_score=0.01, ranking=TYPOS)]
            return sync.refresh_words().gone, found

    assert await asyncio.to_thread(synchronous) == (0, ["umbrella"])


async def test_two_refresh_at_once(memory: PostgresMemory) -> None:
    words = (await memory.refresh_words()).words
    for _ in range(5):
        await memory.add("A kettle whistles.", id="kettle", on_conflict="update")
        await asyncio.gather(*(memory.refresh_words() for _ in range(4)), memory.delete("kettle"))
    assert (await memory.refresh_words()).words == words


async def test_without_pg_trgm(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add("The plumber is ill.")
        counts = await memory.refresh_words()
        assert counts == KnownWords(3, added=3, gone=0, comparable=False)
        assert await memory.recall("plubmer", min_score=0.01, ranking=TYPOS) == []
        assert len(await memory.recall("plumber", min_score=0.01)) == 1


async def test_stems_of_the_language(memory: PostgresMemory) -> None:
    """Words are compared as they are written; what is looked for is what the language makes of the nearest."""
    await memory.set_language("german")
    await memory.add("Die Häuser wurden gestrichen.", id="haus")
    await memory.refresh_words()
    assert await ids(memory, "Häuserr") == ["haus"]
    assert await ids(memory, "gestrihcen") == ["haus"]


@pytest.mark.parametrize("bad", [-0.1, float("nan"), 1e7])
def test_the_weight_is_checked(bad: float) -> None:
    with pytest.raises(InvalidValueError, match="typos"):
        Ranking(typos=bad)
