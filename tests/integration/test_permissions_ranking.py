"""What ranks for a principal knows nothing that it may not read; and whence a principal reads."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Select, select

from postgres_memory import Hits, MemoryPermissions, PostgresMemory, Ranking
from postgres_memory._sql.compile import catalog, compile_statement
from postgres_memory._sql.parameters import text_parameter
from postgres_memory._sql.schema import Tables
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate
from tests.conftest import Database
from tests.embedders import WordEmbedder

from .permission_model import OWNERS, one_of_each, readable

HERS, HIS = MemoryPermissions("alice"), MemoryPermissions("bob")

#: Lists that have the principal and everyone, in either order, and nobody.
BOTH: tuple[tuple[str, ...], ...] = (("alice", "*"), ("*", "alice", "bob"), ())

RANKINGS = {
    "words": Ranking(),
    "relations": Ranking(relations=0.5),
    "both, by sums": Ranking(vector=1.0, relations=0.5),
    "both, by ranks": Ranking(vector=1.0, fusion="rrf"),
}


def numbers_of(tables: Tables) -> Select[Any]:
    return select(tables.numbers.c.seq).where(tables.numbers.c.namespace == text_parameter("namespace"))


def ranked_of(tables: Tables) -> Select[Any]:
    return select(tables.ranked.c.seq).where(tables.ranked.c.namespace == text_parameter("namespace"))


def shown(hits: Hits) -> list[tuple[str, float, dict[str, float]]]:
    return [(hit.record.id, hit.score, dict(hit.parts)) for hit in hits]


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_what_is_hidden_weighs_nothing(database: Database, ranking: str) -> None:
    """Neither by itself, nor as a neighbour, a relation or one of those that relations are counted by."""
    async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as memory:
        for number, content in enumerate(("the kettle boils", "a cup of tea", "the kettle sings", "a spoon")):
            thread = "kitchen" if number < 2 else None
            await memory.add(content, id=f"m{number}", permissions=HERS, thread_id=thread)
        await memory.relate("m0", "m3", "supports", confidence=0.2)
        alice, asked = memory.as_principal("alice"), RANKINGS[ranking]
        before = shown(await alice.recall("kettle", ranking=asked, explain=True))
        assert len(before) == 4
        for number in range(60):
            hidden = f"kettle kettle {number}"
            await memory.add(hidden, id=f"h{number}", permissions=HIS, thread_id="kitchen")
            await memory.relate("m0", f"h{number}", "supports", confidence=1.0)
            await memory.relate(f"h{number}", "m2", "contradicts", confidence=1.0)
        assert shown(await alice.recall("kettle", ranking=asked, explain=True)) == before
        whole = shown(await memory.recall("kettle", ranking=asked, explain=True))
        assert whole != before
        assert any(id_.startswith("h") for id_, _, _ in whole)


async def test_no_hidden_word_replaces_a_misspelt_one(database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("CREATE EXTENSION pg_trgm")
    await connection.close()
    async with PostgresMemory(database.dsn) as memory:
        await memory.add("The plumber is a spy.", permissions=HIS)
        await memory.add("Tea at four.", permissions=HERS)
        await memory.refresh_words()
        asked = Ranking(typos=0.7)
        assert any("plumber" in line for line in (await memory.recall("plubmer", ranking=asked)).plan)
        hits = await memory.as_principal("alice").recall("plubmer", ranking=asked)
        assert not any("plumber" in line for line in hits.plan)
        assert [hit.record.content for hit in hits] == ["Tea at four."]


async def test_known_words_are_left_to_the_backend(memory: PostgresMemory) -> None:
    """Also where a principal clears all that it may."""
    await memory.add("The plumber is a spy.", permissions=HIS)
    await memory.as_principal("alice").add("Tea at four.")
    known = await memory.refresh_words()
    await memory.as_principal("alice").clear()
    assert await memory.count() == 1
    assert (await memory.refresh_words()).gone == 2  # tea, four
    assert known.words > 2


async def test_a_principal_reads_what_the_primary_has(database: Database, empty_database: Database) -> None:
    """The other database stands for a replica that has everything and shows it by having nothing."""
    await migrate(Dsn(empty_database.direct_dsn))
    async with PostgresMemory(
        database.direct_dsn, read_dsn=empty_database.direct_dsn, access_tracking="off"
    ) as memory:
        alice = memory.as_principal("alice")
        hers = await alice.add("the kettle boils")
        await asyncio.sleep(0.1)  # for which nobody looks for a replica that has it
        assert await memory.count() == 0
        assert await alice.count() == 1
        assert await alice.get(hers.id) == hers
        assert [hit.record for hit in await alice.recall("kettle")] == [hers]
        assert [entry.content for entry in await alice.search("kettle")] == [hers.content]
        assert await memory.count() == 0, "what a principal reads is taken for a write"


async def test_search_ranks_what_may_be_read_and_each_of_it_once(database: Database) -> None:
    """Whoever owns it, and whatever lists have the principal, everyone, or both; also as recall counts them."""
    connection = await asyncpg.connect(database.direct_dsn)
    async with PostgresMemory(database.dsn) as memory:
        records = await one_of_each(memory)
        for number, (owner, *lists) in enumerate(product(OWNERS, BOTH, BOTH)):
            permissions = MemoryPermissions(owner, *lists)
            records.append(await memory.add(f"the kettle boils {number}", permissions=permissions))
        elsewhere = PostgresMemory(database.dsn, namespace="elsewhere")
        await one_of_each(elsewhere)
        await elsewhere.close()
        statements = [compile_statement("numbers", numbers_of(catalog("memory", "public").limited))]
        for newer in (True, False):  # servers
            limited = catalog("memory", "public", walks_arrays=newer).limited
            statements.append(compile_statement("ranked", ranked_of(limited)))
        for principal in ("alice", "bob", "carol", "dave"):
            expected = sorted(record.content for record in readable(principal, records))
            found = await memory.as_principal(principal).search("the kettle", limit=200)
            assert sorted(entry.content for entry in found) == expected, principal
            values = {"namespace": "default", "principal": principal}
            for statement in statements:
                given = (values[name] for name in statement.parameters)
                numbers = await connection.fetch(statement.sql, *given)
                assert len(set(numbers)) == len(numbers) == len(expected), (principal, statement.name)
    await connection.close()
