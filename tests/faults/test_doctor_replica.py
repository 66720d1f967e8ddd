"""`doctor` on replicas: one that follows, one that is held up, one that is none, one that is gone."""

from __future__ import annotations

import asyncio

import asyncpg

from postgres_memory import PostgresMemory
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate

from ..integration.examined import finding
from .replication import pair


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def severity_after(memory: PostgresMemory, severity: str) -> None:
    """Wait until the replica is as it is to be; it follows by itself."""
    seen = ""
    for _ in range(100):
        one = await finding(memory, "replica")
        if one.severity == severity:
            return
        seen = one.seen
        await asyncio.sleep(0.1)
    raise AssertionError(seen)


async def test_a_replica() -> None:
    async with pair(synchronous=False) as (primary, standby):
        await migrate(Dsn(primary.dsn))
        async with PostgresMemory(primary.dsn, read_dsn=standby.dsn, max_replica_lag=0.2) as memory:
            await memory.store("something")
            await severity_after(memory, "ok")
            await execute(standby.dsn, "SELECT pg_wal_replay_pause()")
            await memory.store("something else")
            await asyncio.sleep(0.5)
            one = await finding(memory, "replica")
            assert (one.severity, one.data["paused"], one.data["standby"]) == ("warning", True, True)
            assert one.data["behind_bytes"] > 0
            assert one.data["behind_seconds"] > 0.2
            await execute(standby.dsn, str(one.fix))
            await severity_after(memory, "ok")
            await execute(standby.dsn, "ALTER SYSTEM SET recovery_min_apply_delay = '1h'")
            await execute(standby.dsn, "SELECT pg_reload_conf()")
            await asyncio.sleep(0.5)
            await memory.store("something that comes later")
            await asyncio.sleep(0.5)
            one = await finding(memory, "replica")
            assert (one.severity, one.data["paused"]) == ("warning", False)
        async with PostgresMemory(standby.dsn) as memory:
            one = await finding(memory, "writable")
            assert (one.severity, one.data["standby"]) == ("problem", True)
            assert [each.seen for each in (await memory.doctor()).findings if not each.checked] == []
        async with PostgresMemory(primary.dsn, read_dsn=primary.dsn) as memory:
            assert (await finding(memory, "replica")).severity == "notice"
        await asyncio.to_thread(standby.stop)
        async with PostgresMemory(primary.dsn, read_dsn=standby.dsn) as memory:
            one = await finding(memory, "replica")
            assert (one.severity, one.fix) == ("warning", "start the replica, or correct read_dsn=")
