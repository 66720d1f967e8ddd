"""`doctor` on the upkeep of tables: each fault is made, found, and gone after the fix."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._doctor import upkeep
from tests.conftest import Database

from .examined import execute, finding, findings

_FLUSH = "SELECT pg_stat_force_next_flush()"
_QUIET = "ALTER TABLE memory.memories SET (autovacuum_enabled = off)"


async def test_autovacuum_switched_off_for_a_table(database: Database, memory: PostgresMemory) -> None:
    await execute(database, _QUIET)
    one = await finding(memory, "dead_rows")
    assert (one.severity, one.data["table"]) == ("warning", "memories")
    await execute(database, str(one.fix))
    assert (await finding(memory, "dead_rows")).severity == "ok"


async def counted(database: Database, rows: int) -> None:
    """Wait until the statistics know of ``rows`` written; a session tells of its own up to ten seconds late."""
    query = "SELECT n_mod_since_analyze FROM pg_stat_user_tables WHERE relname = 'memories'"
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        for _ in range(600):
            if await connection.fetchval(query) >= rows:
                return
            await asyncio.sleep(0.1)
    finally:
        await connection.close()
    pytest.fail(f"the statistics never knew of {rows} rows")


async def test_dead_rows_and_statistics(database: Database, memory: PostgresMemory) -> None:
    await execute(database, _QUIET)
    await memory.add_many([f"content {number}" for number in range(3_000)])
    await counted(database, 3_000)
    never = {one.data["table"]: one for one in await findings(memory, "statistics")}
    assert never["memories"].severity == "warning"
    assert "never analysed" in never["memories"].seen
    for one in never.values():
        await execute(database, str(one.fix))
    assert (await finding(memory, "statistics")).severity == "ok"
    await execute(database, f"DELETE FROM memory.memories WHERE seq % 6 <> 0; {_FLUSH}")
    stale = {one.data["table"]: one for one in await findings(memory, "statistics")}
    assert "changed since" in stale["memories"].seen
    dead = [one for one in await findings(memory, "dead_rows") if "dead rows" in one.seen]
    assert {one.data["table"] for one in dead} >= {"memories"}
    assert next(one for one in dead if one.data["table"] == "memories").data["dead"] == 2_500
    for one in dead:
        assert str(one.fix).startswith("VACUUM (ANALYZE)")
        await execute(database, str(one.fix))
    assert [one for one in await findings(memory, "dead_rows") if "dead rows" in one.seen] == []
    assert (await finding(memory, "statistics")).severity == "ok"


async def test_a_table_that_is_mostly_empty(
    database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MOSTLY_EMPTY_BYTES", 100_000)
    await memory.add_many([f"content {number}" for number in range(3_000)])
    await execute(database, "VACUUM ANALYZE memory.memories")
    assert [one for one in await findings(memory, "dead_rows") if one.severity != "ok"] == []
    # Counted before VACUUM, which sets the count to what it leaves.
    await execute(database, f"DELETE FROM memory.memories WHERE seq % 50 <> 0; {_FLUSH}")
    await execute(database, "VACUUM ANALYZE")
    empty = {one.data["table"]: one for one in await findings(memory, "dead_rows")}
    assert empty["memories"].severity == "notice"
    await execute(database, str(empty["memories"].fix).split(";", maxsplit=1)[0])
    assert "memories" not in {one.data.get("table") for one in await findings(memory, "dead_rows")}


@pytest.mark.parametrize(("age", "severity"), [(400_000_000, "warning"), (1_600_000_000, "problem")])
async def test_rows_that_get_too_old(
    database: Database, memory: PostgresMemory, age: int, severity: str
) -> None:
    # The lock keeps an autovacuum worker, which comes for just such tables, from freezing it before it is looked at.
    holding = await asyncpg.connect(database.direct_dsn)
    try:
        await holding.execute("BEGIN; LOCK TABLE memory.memory_relations IN SHARE UPDATE EXCLUSIVE MODE")
        await execute(
            database,
            "UPDATE pg_class SET relfrozenxid = "
            f"((pg_current_xact_id()::text::bigint + 4294967296 - {age}) % 4294967296)::text::xid "
            "WHERE oid = 'memory.memory_relations'::regclass",
        )
        one = await finding(memory, "wraparound")
    finally:
        await holding.close()
    assert (one.severity, one.data["table"]) == (severity, "memory_relations")
    await execute(database, str(one.fix))
    assert (await finding(memory, "wraparound")).severity == "ok"


async def test_what_may_wait_in_a_gin_index(database: Database, memory: PostgresMemory) -> None:
    await execute(database, "ALTER INDEX memory.memories_terms_idx SET (gin_pending_list_limit = 100000)")
    one = await finding(memory, "pending_lists")
    assert (one.severity, one.data["index"]) == ("warning", "memories_terms_idx")
    await execute(database, str(one.fix))
    assert (await finding(memory, "pending_lists")).severity == "ok"
    await execute(database, "ALTER INDEX memory.memories_terms_idx RESET (gin_pending_list_limit)")
    assert (await finding(memory, "pending_lists")).data["limit_bytes"] == 4 * 1024**2
    await execute(database, "ALTER INDEX memory.memories_terms_idx SET (fastupdate = off)")
    assert (await finding(memory, "pending_lists")).severity == "ok"


async def test_what_waits_in_a_gin_index(
    database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "PENDING_BYTES", 256 * 1024)
    await execute(
        database,
        "CREATE SCHEMA extras",
        "CREATE EXTENSION pgstattuple SCHEMA extras",
        "ALTER INDEX memory.memories_terms_idx SET (gin_pending_list_limit = 100000)",
        _QUIET,
    )
    await memory.add_many([" ".join(f"word{number}_{n}" for n in range(20)) for number in range(1_000)])
    await execute(database, "ALTER INDEX memory.memories_terms_idx SET (gin_pending_list_limit = 256)")
    one = await finding(memory, "pending_lists")
    assert (one.severity, one.data["index"]) == ("warning", "memories_terms_idx")
    assert one.data["pending_bytes"] > 256 * 1024
    await execute(database, str(one.fix))
    one = await finding(memory, "pending_lists")
    assert (one.severity, one.data["measured"]) == ("ok", True)


async def test_a_replication_slot_that_nobody_uses(
    database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "KEPT_BYTES", 100_000)
    slot = f"slot_{database.name}"
    await execute(database, f"SELECT pg_create_physical_replication_slot('{slot}', true)")
    try:
        await memory.add_many([f"content {number}" for number in range(500)])
        one = await finding(memory, "disk")
        assert (one.severity, one.data["slot"]) == ("warning", slot)
        assert slot in str(one.fix)
    finally:
        await execute(database, f"SELECT pg_drop_replication_slot('{slot}')")
    one = await finding(memory, "disk")
    assert one.severity == "ok"
    assert one.data["bytes"] == sum(one.data["tables"].values()) > 100_000


async def test_what_expired_and_is_still_there(
    database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "EXPIRED", 10)
    await memory.add_many([f"content {number}" for number in range(11)])
    await execute(database, "UPDATE memory.memories SET expires_at = now() - interval '2 days'")
    one = await finding(memory, "disk")
    assert (one.severity, one.data["expired"]) == ("notice", 11)
    await memory.purge_expired()
    assert (await finding(memory, "disk")).severity == "ok"


async def test_a_change_feed_that_nobody_prunes(database: Database, memory: PostgresMemory) -> None:
    await memory.enable_changes()
    await memory.store("content")
    assert (await finding(memory, "change_feeds")).severity == "ok"
    await execute(database, "UPDATE memory.changes SET created_at = now() - interval '31 days'")
    one = await finding(memory, "change_feeds")
    assert (one.severity, one.data) == ("notice", {"namespace": "default", "days": 31})
    assert one.seen == "the change feed of namespace 'default' keeps changes of 31 days"
    assert await memory.prune_changes(upkeep.OLD_CHANGES) == 1
    assert (await finding(memory, "change_feeds")).severity == "ok"
