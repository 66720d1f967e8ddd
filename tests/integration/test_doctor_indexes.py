"""`doctor` on indexes: what is missing, half made or made differently is found, and put right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._doctor.repair import repair_all
from postgres_memory._sql.required_indexes import required_indexes
from postgres_memory._sql.schema import tables
from tests.conftest import Database
from tests.embedders import WordEmbedder

from .examined import execute, finding, findings, leave_invalid

TERMS = "memories_terms_idx"


@pytest.fixture
async def memory(database: Database) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as opened:
        await opened.add_many([f"content {number}" for number in range(50)])
        yield opened


async def valid(database: Database) -> dict[str, bool]:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        rows = await connection.fetch(
            "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "WHERE c.relnamespace = 'memory'::regnamespace"
        )
    finally:
        await connection.close()
    return {row["relname"]: row["indisvalid"] for row in rows}


async def definition(database: Database, index: str) -> str:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        return str(await connection.fetchval(f"SELECT pg_get_indexdef('memory.{index}'::regclass)"))
    finally:
        await connection.close()


async def test_every_missing_index_is_found_and_made_as_it_was(
    database: Database, memory: PostgresMemory
) -> None:
    names = [one.name for one in required_indexes(tables("memory", "public")) if not one.of_constraint]
    assert len(names) > 10
    before = {name: await definition(database, name) for name in names}
    await execute(database, *(f"DROP INDEX memory.{name}" for name in names))
    missing = await findings(memory, "indexes")
    assert [one.data["index"] for one in missing] == names
    assert {(one.severity, one.repairable) for one in missing} == {("problem", True)}
    found = await memory.doctor(repair=True)
    assert [(repair.statement, repair.error) for repair in found.repairs] == [
        (one.fix, None) for one in missing
    ]
    assert found.of("indexes")[0].severity == "ok"
    assert {name: await definition(database, name) for name in names} == before


async def test_an_index_of_a_constraint_is_for_people_to_make(
    database: Database, memory: PostgresMemory
) -> None:
    await execute(database, "ALTER TABLE memory.write_tokens DROP CONSTRAINT write_tokens_pkey")
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable) == ("problem", False)
    assert (await memory.doctor(repair=True)).repairs == ()
    await execute(database, str(one.fix))
    assert (await finding(memory, "indexes")).severity == "ok"


async def test_an_invalid_index_is_rebuilt(database: Database, memory: PostgresMemory) -> None:
    made = await definition(database, TERMS)
    await execute(database, f"DROP INDEX memory.{TERMS}")
    await leave_invalid(database, "memories", made.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY"))
    assert not (await valid(database))[TERMS]
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable) == ("problem", True)
    assert one.fix == f'REINDEX INDEX CONCURRENTLY "memory"."{TERMS}";'
    assert (await memory.doctor(repair=True)).of("indexes")[0].severity == "ok"
    assert (await valid(database))[TERMS]
    assert await definition(database, TERMS) == made


async def test_what_a_failed_reindex_left_is_dropped(database: Database, memory: PostgresMemory) -> None:
    await leave_invalid(database, "memories", f"REINDEX INDEX CONCURRENTLY memory.{TERMS}")
    assert (await valid(database))[f"{TERMS}_ccnew"] is False
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable) == ("warning", True)
    found = await memory.doctor(repair=True)
    assert found.of("indexes")[0].severity == "ok"
    assert f"{TERMS}_ccnew" not in await valid(database)
    assert (await valid(database))[TERMS]


async def test_an_index_of_a_space_is_finished(database: Database, memory: PostgresMemory) -> None:
    made = await memory.create_index("words")
    statement = (await definition(database, made.name)).replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
    await memory.drop_index("words")
    await leave_invalid(database, "memory_embeddings", statement)
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable) == ("problem", True)
    assert str(one.fix).startswith("REINDEX")
    found = await memory.doctor(repair=True)
    assert found.of("indexes")[0].severity == "ok"
    assert (await valid(database))[made.name]


@pytest.mark.parametrize("space_is_there", [True, False])
async def test_a_leftover_that_nothing_needs_is_dropped(
    database: Database, memory: PostgresMemory, space_is_there: bool
) -> None:
    """Another index serves the space, or nobody has it any more."""
    made = await memory.create_index("words", m=8, ef_construction=32)
    statement = (await definition(database, made.name)).replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
    await memory.drop_index("words")
    if space_is_there:
        await memory.create_index("words")
    await leave_invalid(database, "memory_embeddings", statement)
    if not space_is_there:
        await execute(database, "DELETE FROM memory.memory_embeddings", "DELETE FROM memory.embedding_spaces")
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable) == ("warning", True)
    assert str(one.fix).startswith("DROP INDEX CONCURRENTLY")
    assert (await memory.doctor(repair=True)).of("indexes")[0].severity == "ok"
    assert made.name not in await valid(database)


async def test_an_index_that_is_being_built_is_left_alone(database: Database, memory: PostgresMemory) -> None:
    holder = await asyncpg.connect(database.direct_dsn)
    try:
        async with holder.transaction():
            await holder.execute("LOCK TABLE memory.memory_embeddings IN ROW EXCLUSIVE MODE")
            building = asyncio.create_task(memory.create_index("words"))
            while all((await valid(database)).values()):
                await holder.execute("SELECT pg_sleep(0.01)")
            one = await finding(memory, "indexes")
            assert (one.severity, one.repairable) == ("notice", False)
        await building
        assert (await finding(memory, "indexes")).severity == "ok"
    finally:
        await holder.close()


async def test_what_was_put_right_meanwhile_is_not_repaired(
    database: Database, memory: PostgresMemory
) -> None:
    made = await memory.create_index("words", m=8, ef_construction=32)
    statement = (await definition(database, made.name)).replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
    await memory.create_index("words")
    await leave_invalid(database, "memory_embeddings", statement)
    stale = await findings(memory, "indexes")
    assert str(stale[0].fix).startswith("DROP INDEX")
    await memory.create_index("words", m=8, ef_construction=32)  # which drops the other one
    assert await repair_all(memory._context, stale) == ()
    assert (await valid(database))[made.name]


async def test_a_repair_and_who_builds_take_turns(database: Database, memory: PostgresMemory) -> None:
    made = await memory.create_index("words")
    statement = (await definition(database, made.name)).replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
    await memory.drop_index("words")
    await leave_invalid(database, "memory_embeddings", statement)
    repairing, building = await asyncio.gather(memory.doctor(repair=True), memory.create_index("words"))
    assert building.name == made.name
    assert all(repair.error is None for repair in repairing.repairs)
    assert (await valid(database))[made.name]


async def test_an_index_of_somebody_elses_is_reported_only(
    database: Database, memory: PostgresMemory
) -> None:
    await leave_invalid(
        database, "memories", "CREATE INDEX CONCURRENTLY mine ON memory.memories (namespace, confidence)"
    )
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable, one.data["index"]) == ("problem", False, "mine")
    assert (await memory.doctor(repair=True)).repairs == ()
    assert (await valid(database))["mine"] is False


async def test_an_index_made_differently(database: Database, memory: PostgresMemory) -> None:
    await execute(
        database,
        "DROP INDEX memory.memories_created_at_idx",
        "CREATE INDEX memories_created_at_idx ON memory.memories (namespace, created_at)",
    )
    one = await finding(memory, "indexes")
    assert (one.severity, one.repairable) == ("problem", False)
    first, second = [part for part in str(one.fix).split(";") if part.strip()]
    await execute(database, first, second)
    assert (await finding(memory, "indexes")).severity == "ok"


async def test_a_repair_that_fails_is_told_and_keeps_no_other_from_being_done(
    database: Database, memory: PostgresMemory
) -> None:
    await execute(
        database,
        "DROP INDEX memory.memories_content_key_key",
        "DROP INDEX memory.memories_updated_at_idx",
        "UPDATE memory.memories SET content_key = 'same'",
    )
    assert len(await findings(memory, "indexes")) == 2
    found = await memory.doctor(repair=True)
    errors = {repair.statement.split('"')[0].split()[-1]: repair.error for repair in found.repairs}
    assert len(found.repairs) == 2
    failed = [repair for repair in found.repairs if repair.error is not None]
    assert len(failed) == 1, errors
    assert "memories_content_key_key" in failed[0].statement
    assert "23505" in str(failed[0].error)
    assert not found.ok
    assert (await valid(database))["memories_updated_at_idx"]
