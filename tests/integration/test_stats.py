"""`stats`: what it counts is what there is."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from postgres_memory import MemoryCount, MemoryType, PostgresMemory
from postgres_memory.errors import InvalidInputError
from tests.conftest import Database

from .examined import execute


async def test_of_nothing(memory: PostgresMemory) -> None:
    found = await memory.stats()
    assert (found.namespace, found.memories, found.counts) == ("default", 0, ())
    assert len(found.growth) == 30
    assert {one.memories for one in found.growth} == {0}
    assert found.growth[-1].day == datetime.now(UTC).date()


async def test_counts_by_kind_and_day(database: Database, memory: PostgresMemory) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = await memory.add("a", created_at=today)
    await memory.add("b", created_at=today - timedelta(microseconds=1), memory_type=MemoryType.SYNTHETIC)
    await memory.add("c", created_at=today - timedelta(days=2))
    await memory.add("d", created_at=today - timedelta(days=2, microseconds=1))
    await memory.archive(first.id)
    async with PostgresMemory(database.dsn, namespace="another") as other:
        await other.add("e", created_at=today)
        found = await other.stats(all_namespaces=True, days=3)
    assert found.namespace is None
    assert found.counts == (
        MemoryCount("another", "persistent", "active", 1),
        MemoryCount("default", "persistent", "active", 2),
        MemoryCount("default", "persistent", "archived", 1),
        MemoryCount("default", "synthetic", "active", 1),
    )
    assert found.memories == 5
    assert [one.memories for one in found.growth] == [1, 1, 2]
    assert [one.day for one in found.growth] == [(today - timedelta(days=days)).date() for days in (2, 1, 0)]
    own = await memory.stats(days=1)
    assert (own.memories, [one.memories for one in own.growth]) == (4, [1])
    assert {one.namespace for one in own.counts} == {"default"}


async def test_days_are_those_of_utc_whatever_the_session_says(database: Database) -> None:
    await execute(database, f"ALTER DATABASE \"{database.name}\" SET timezone = 'Pacific/Kiritimati'")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    async with PostgresMemory(database.dsn) as memory:
        await memory.add("a", created_at=today)
        await memory.add("b", created_at=today - timedelta(microseconds=1))
        assert [one.memories for one in (await memory.stats(days=2)).growth] == [1, 1]


async def test_sizes_and_indexes_are_what_the_server_says(database: Database, memory: PostgresMemory) -> None:
    await memory.add_many([f"content {number} {os.urandom(3_000).hex()}" for number in range(200)])
    await execute(
        database,
        "VACUUM ANALYZE",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'memory.memories_place_idx'::regclass",
    )
    found = await memory.stats()
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        whole = (
            "SELECT pg_total_relation_size(c.oid) FROM pg_class c WHERE c.oid = 'memory.memories'::regclass"
        )
        total = await connection.fetchval(whole)
        index = await connection.fetchval("SELECT pg_relation_size('memory.memories_terms_idx')")
    finally:
        await connection.close()
    (table,) = [one for one in found.tables if one.name == "memories"]
    # The maps of free space and of visibility are left out.
    assert 0 <= total - (table.bytes + table.long_values_bytes + table.indexes_bytes) < 100_000
    assert (table.rows, table.dead_rows) == (200, 0)
    assert table.long_values_bytes > 100_000 or table.bytes > 100_000
    assert found.tables[0].name == "memories"
    assert found.bytes == sum(one.bytes + one.long_values_bytes + one.indexes_bytes for one in found.tables)
    sizes = {one.name: one for one in found.indexes}
    assert sizes["memories_terms_idx"].bytes == index
    assert [one.name for one in found.indexes if not one.valid] == ["memories_place_idx"]


async def test_inside_a_transaction_it_sees_what_that_wrote(memory: PostgresMemory) -> None:
    async with memory.transaction() as inside:
        await inside.store("x")
        assert (await inside.stats()).memories == 1
        assert (await memory.stats()).memories == 0


@pytest.mark.parametrize("days", [0, -1, 1.5, True])
async def test_days_that_cannot_be(memory: PostgresMemory, days: object) -> None:
    with pytest.raises(InvalidInputError):
        await memory.stats(days=days)  # type: ignore[arg-type]
