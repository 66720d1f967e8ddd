"""The server dies, restarts, or runs out of something, under writers that use every verb."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import asyncpg
import pytest

from postgres_memory import PostgresMemory

from ..conftest import Database
from .campaign import ENOUGH, RETRY_FOR, Record, campaign
from .server import BreakableServer
from .waiting import until

_PIDS = """
SELECT pid FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random()
"""


def memory_of(database: Database) -> PostgresMemory:
    return PostgresMemory(database.dsn, retry_for=RETRY_FOR)


async def test_quiet(field: Database, record: Record) -> None:
    """Nothing breaks: what the ledger expects is what the verbs do."""
    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        await work.reached(ENOUGH)
        work.faults += 1  # none, and it counts
        assert work.ledger.refused == 0


async def test_kill_9_of_the_postmaster(breakable: BreakableServer, field: Database, record: Record) -> None:
    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        for acknowledged in (200, 500, 800):
            await work.reached(acknowledged)
            await breakable.kill()
            await breakable.start()
            work.faults += 1


async def test_kill_9_of_a_backend(field: Database, record: Record) -> None:
    """The server ends every session then, and recovers."""
    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        for acknowledged in (200, 400, 600, 800):
            await work.reached(acknowledged)
            watcher = await asyncpg.connect(field.dsn)
            pid = await watcher.fetchval(_PIDS)
            watcher.terminate()
            os.kill(pid, signal.SIGKILL)
            work.faults += 1


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_restart(breakable: BreakableServer, field: Database, record: Record, mode: str) -> None:
    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        for acknowledged in (200, 500, 800):
            await work.reached(acknowledged)
            await breakable.restart(mode)
            work.faults += 1


@pytest.mark.parametrize("function", ["pg_terminate_backend", "pg_cancel_backend"])
async def test_in_a_loop(field: Database, record: Record, function: str) -> None:
    watcher = await asyncpg.connect(field.dsn)

    async def injure() -> None:
        pid = await watcher.fetchval(_PIDS)
        await watcher.execute(f"SELECT {function}({pid})")

    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        await work.while_writing(injure, every=5)
    await watcher.close()


async def test_max_connections(field: Database, record: Record) -> None:
    """Others take every connection there is, while the pool has lost some of its own."""

    async def injure() -> None:
        await watcher.execute(f"SELECT pg_terminate_backend(pid) FROM ({_PIDS} LIMIT 3) AS victims")
        others: list[asyncpg.Connection[asyncpg.Record]] = []
        while len(others) < 60:
            try:
                others.append(await asyncpg.connect(field.dsn))
            except asyncpg.TooManyConnectionsError:
                break
        else:
            raise AssertionError("there is no end of connections")
        await asyncio.sleep(0.1)
        for other in others:
            await other.close()

    watcher = await asyncpg.connect(field.dsn)
    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        for acknowledged in (150, 300, 450, 600, 750, 900):
            await work.reached(acknowledged)
            await injure()
            work.faults += 1
    await watcher.close()


async def test_no_room_for_the_heap(
    breakable: BreakableServer, record: Record, breakable_template: str
) -> None:
    if not breakable.heap.mounted:
        pytest.skip("a full disk: no file system can be mounted here")
    name = await breakable.server.create_database(f'TEMPLATE "{breakable_template}" TABLESPACE small')
    field = Database(breakable.server, name)
    try:
        async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
            for acknowledged in (200, 500, 800):
                await work.reached(acknowledged)
                refused = work.ledger.refused
                breakable.heap.fill()
                await until(partial(lambda before: work.ledger.refused >= before + 20, refused))
                breakable.heap.free()
                work.faults += 1
            assert work.ledger.errors.keys() == {"DatabaseError 53100"}
    finally:
        await breakable.server.drop_database(name)


async def test_no_room_for_the_log(breakable: BreakableServer, field: Database, record: Record) -> None:
    """The server crashes, and does not come back before there is room."""
    if not breakable.wal.mounted:
        pytest.skip("a full disk: no file system can be mounted here")
    async with memory_of(field) as memory, campaign(memory, field.dsn, record) as work:
        for acknowledged in (300, 700):
            await work.reached(acknowledged)
            breakable.wal.fill()
            try:
                async with asyncio.timeout(60):
                    while breakable.pid is not None:
                        await _switch(field)
            finally:
                breakable.wal.free()
            await breakable.start()
            work.faults += 1


async def _switch(field: Database) -> None:
    """Have the server begin another file of its log."""
    try:
        watcher = await asyncpg.connect(field.dsn)
        await watcher.execute("SELECT pg_switch_wal()")
        watcher.terminate()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        await asyncio.sleep(0.05)
