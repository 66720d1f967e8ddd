"""Indexes of spaces: the type by dimensions, used by a statement, built beside writers, repaired after failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from sqlalchemy import cast, literal_column, select

from postgres_memory import PostgresMemory, SpaceIndex
from postgres_memory._sql.compile import compile_statement
from postgres_memory._sql.schema import tables
from postgres_memory._sql.space_index import SpaceIndexShape, exact_distance, indexed_distance, indexed_rows
from postgres_memory.errors import DatabaseError, InvalidInputError, SpaceError, UsageError
from tests.conftest import Database
from tests.embedders import WordEmbedder, word_vector

TABLES = tables("memory", "public")


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(database.direct_dsn)
    yield opened
    await opened.close()


@pytest.fixture
async def memory(database: Database) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as opened:
        await opened.add_many([f"content {number}" for number in range(50)])
        yield opened


async def indexes(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, tuple[int, bool]]:
    rows = await connection.fetch(
        "SELECT c.oid, c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw'"
    )
    return {row["relname"]: (row["oid"], row["indisvalid"]) for row in rows}


def nearest(shape: SpaceIndexShape, query: list[float]) -> str:
    """The statement that finds the nearest by the index."""
    embeddings = TABLES.memory_embeddings
    vector: Any = cast(literal_column(f"'{query}'"), TABLES.vector())
    statement = (
        select(embeddings.c.seq)
        .where(indexed_rows(TABLES, embeddings, shape))
        .order_by(indexed_distance(TABLES, embeddings.c.embedding, vector, shape))
        .limit(literal_column("3"))
    )
    return compile_statement("nearest", statement).sql


@pytest.mark.parametrize(
    ("dimensions", "distance", "kept"),
    [
        (8, "cosine", "vector"),
        (8, "l2", "vector"),
        (2000, "inner_product", "vector"),
        (2001, "cosine", "halfvec"),
        (3072, "l2", "halfvec"),
        (4000, "inner_product", "halfvec"),
        (4001, "cosine", "bit"),
    ],
)
async def test_the_type_follows_the_dimensions_and_a_statement_uses_the_index(
    database: Database,
    connection: asyncpg.Connection[asyncpg.Record],
    dimensions: int,
    distance: Any,
    kept: Any,
) -> None:
    space = 'it\'s a \\ "space"'
    embedder = WordEmbedder(space, dimensions)
    async with PostgresMemory(database.dsn, embedder=embedder, distance=distance) as memory:
        await memory.add_many([f"word{number} word{number + 1}" for number in range(20)])
        made = await memory.create_index(space)
    assert (made.kind, made.type, made.m, made.ef_construction) == ("hnsw", kept, 16, 64)
    assert {name: valid for name, (_, valid) in (await indexes(connection)).items()} == {made.name: True}
    query = word_vector("word3 word4", dimensions)
    statement = nearest(SpaceIndexShape(space, dimensions, distance, kept), query)
    await connection.execute("SET enable_seqscan = off; SET enable_sort = off")
    plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {statement}"))
    assert f"Index Scan using {made.name}" in plan
    found = {row["seq"] for row in await connection.fetch(statement)}
    vector: Any = cast(literal_column(f"'{query}'"), TABLES.vector())
    embeddings = TABLES.memory_embeddings
    exact = select(embeddings.c.seq).order_by(
        exact_distance(TABLES, embeddings.c.embedding, vector, distance)
    )
    best = await connection.fetchval(compile_statement("exact", exact).sql)
    assert best in found


async def test_the_same_again_is_left_and_other_options_replace_it(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    first = await memory.create_index("words")
    before = await indexes(connection)
    assert await memory.create_index("words") == first
    assert await indexes(connection) == before
    second = await memory.create_index("words", type="halfvec", m=8, ef_construction=32)
    assert second == SpaceIndex(second.name, "hnsw", "halfvec", 8, 32)
    assert list(await indexes(connection)) == [second.name]
    assert await memory.drop_index("words")
    assert await indexes(connection) == {}
    assert not await memory.drop_index("words")


async def test_what_a_killed_build_left_is_repaired(
    memory: PostgresMemory, database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    """A transaction that is open keeps the build waiting; its server process dies there."""
    blocking = await asyncpg.connect(database.direct_dsn)
    transaction = blocking.transaction()
    await transaction.start()
    await blocking.execute("UPDATE memory.memory_embeddings SET embedding = embedding")
    told: list[str] = []
    heard = asyncio.Event()

    def progress(phase: str, _done: int, _total: int) -> None:
        told.append(phase)
        heard.set()

    building = asyncio.create_task(memory.create_index("words", progress=progress))
    async with asyncio.timeout(30):
        await heard.wait()
    assert told[0] == "waiting for writers before build"
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index "
        "WHERE datname = current_database()"
    )
    with pytest.raises(DatabaseError):
        await building
    await transaction.rollback()
    await blocking.close()
    assert [valid for _, valid in (await indexes(connection)).values()] == [False]
    made = await memory.create_index("words")
    assert {name: valid for name, (_, valid) in (await indexes(connection)).items()} == {made.name: True}


async def test_a_cancelled_build_is_repaired_and_lets_others_go_on(
    memory: PostgresMemory, database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    blocking = await asyncpg.connect(database.direct_dsn)
    transaction = blocking.transaction()
    await transaction.start()
    await blocking.execute("UPDATE memory.memory_embeddings SET embedding = embedding")
    heard = asyncio.Event()
    building = asyncio.create_task(memory.create_index("words", progress=lambda *_: heard.set()))
    async with asyncio.timeout(30):
        await heard.wait()
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    await transaction.rollback()
    await blocking.close()
    async with asyncio.timeout(30):
        made = await memory.create_index("words", m=8)
    assert {name: valid for name, (_, valid) in (await indexes(connection)).items()} == {made.name: True}


async def test_two_at_once_build_one_index_while_others_write(
    memory: PostgresMemory, database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    over = False

    async def write() -> int:
        written = 0
        while not over:
            await memory.store(f"new {written}")
            written += 1
        return written

    writing = asyncio.create_task(write())
    async with PostgresMemory(database.dsn) as other:
        async with asyncio.timeout(60):
            one, two = await asyncio.gather(memory.create_index("words"), other.create_index("words"))
    over = True
    assert await writing > 0
    assert one == two
    assert {name: valid for name, (_, valid) in (await indexes(connection)).items()} == {one.name: True}


async def test_one_index_serves_every_namespace_and_stops_no_other_dimensions(
    memory: PostgresMemory, database: Database, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    made = await memory.create_index("words")
    async with PostgresMemory(database.dsn, namespace="b", embedder=WordEmbedder()) as same:
        await same.store("one")
        assert await same.create_index("words") == made
    async with PostgresMemory(database.dsn, namespace="c", embedder=WordEmbedder(dimensions=5)) as shorter:
        await shorter.store("one")
        other = await shorter.create_index("words")
        assert set(await indexes(connection)) == {made.name, other.name}
        await memory.drop_index("words")
    assert await indexes(connection) == {}


async def test_on_a_borrowed_pool_the_connection_is_given_back_as_it_was(
    memory: PostgresMemory, database: Database
) -> None:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool:
        async with PostgresMemory(pool) as borrowing, asyncio.timeout(30):
            await borrowing.create_index("words")
        assert await pool.fetchval("SHOW statement_timeout") == "0"
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
        assert (
            await pool.fetchval(f"{held}(SELECT oid FROM pg_database WHERE datname = current_database())")
            == 0
        )


async def test_what_cannot_be_indexed(memory: PostgresMemory, database: Database) -> None:
    with pytest.raises(SpaceError, match="is not there"):
        await memory.create_index("none")
    options: list[dict[str, Any]] = [
        {"kind": "ivfflat"},
        {"type": "sparsevec"},
        {"m": 1},
        {"m": 101, "ef_construction": 500},
        {"m": 16, "ef_construction": 31},
        {"ef_construction": 1001},
    ]
    for wrong in options:
        with pytest.raises(InvalidInputError):
            await memory.create_index("words", **wrong)
    async with memory.transaction() as inside:
        for call in (inside.create_index("words"), inside.drop_index("words")):
            with pytest.raises(UsageError, match="outside of a transaction"):
                await call
    embedder = WordEmbedder("long", 4001)
    async with PostgresMemory(database.dsn, namespace="l", embedder=embedder, distance="l2") as long:
        await long.store("one")
        for type_ in (None, "bit", "vector", "halfvec"):
            with pytest.raises(InvalidInputError, match=r"^type: "):
                await long.create_index("long", type=type_)
