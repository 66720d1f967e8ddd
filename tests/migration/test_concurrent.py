"""Many at once: processes, threads and tasks. All succeed, and each revision runs once."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate
from tests.conftest import Database

from .alembic_runs import environment, revisions
from .catalog import read_catalog

#: Imports everything, says so, waits for the start, migrates, and says what it came to and which revisions it ran.
MIGRATING = """
import asyncio, logging, sys
import alembic.command, sqlalchemy.ext.asyncio
from postgres_memory import PostgresMemory
import postgres_memory.migrations

class Ran(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), file=sys.stderr)

logging.getLogger("alembic.runtime.migration").addHandler(Ran())
logging.getLogger("alembic.runtime.migration").setLevel(logging.INFO)
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(PostgresMemory(sys.argv[1]).migrate()))
"""


async def start(dsn: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", MIGRATING, dsn, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()
    )


def ran(errors: bytes) -> int:
    """Return how many revisions a process ran, from what Alembic logged in it."""
    return errors.count(b"Running upgrade")


async def test_eight_processes_migrate_an_empty_database(
    empty_database: Database, database: Database
) -> None:
    processes = await asyncio.gather(*(start(empty_database.dsn) for _ in range(8)))
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    outcomes = await asyncio.gather(*(process.communicate(b"\n") for process in processes))
    assert [process.returncode for process in processes] == [0] * 8, outcomes
    assert [output for output, _ in outcomes] == [f"{REVISION}\n".encode()] * 8
    assert Counter(ran(errors) for _, errors in outcomes) == {len(revisions()): 1, 0: 7}
    assert await read_catalog(empty_database.dsn) == await read_catalog(database.dsn)


async def test_a_killed_process_leaves_no_lock(empty_database: Database) -> None:
    """The next one goes on where the killed one was."""
    await migrate(Dsn(empty_database.dsn), revision="0002")
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        process = await start(empty_database.dsn)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        await until_blocked(empty_database)
        process.kill()
        await process.communicate()
    finally:
        await blocker.close()
    assert await asyncio.wait_for(migrate(Dsn(empty_database.dsn)), 30) == REVISION


async def until_blocked(database: Database) -> None:
    """Return when a session of the database waits for a lock on a table."""
    await until(
        database,
        "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype = 'relation' "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )


async def until(database: Database, query: str) -> None:
    """Return when ``query`` gives true."""
    connection = await asyncpg.connect(database.dsn)
    try:
        async with asyncio.timeout(30):
            while True:
                if await connection.fetchval(query):
                    break
                await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def test_tasks_of_one_process(empty_database: Database) -> None:
    memories = [PostgresMemory(empty_database.dsn) for _ in range(8)]
    assert await asyncio.gather(*(memory.migrate() for memory in memories)) == [REVISION] * 8


async def test_threads_with_a_schema_each_in_two_databases(
    two_databases: tuple[Database, Database], database: Database
) -> None:
    """Alembic's ``op`` and ``context`` are global to the process, so a mix-up would show here."""
    ready = threading.Barrier(8)

    def run(place: Database, schema: str) -> str:
        ready.wait()
        return asyncio.run(migrate(Dsn(place.dsn), schema=schema))

    places = [(place, schema) for place in two_databases for schema in ("memory", "a", "b", "memory")]
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(places)) as threads:
        came_to = await asyncio.gather(*(loop.run_in_executor(threads, run, *place) for place in places))
    assert came_to == [REVISION] * len(places)
    expected = await read_catalog(database.dsn)
    for place in two_databases:
        assert await read_catalog(place.dsn) == expected
        for schema in ("a", "b"):
            found = await read_catalog(place.dsn, schema)
            named = str(found).replace(f"{schema}.", "memory.").replace(f'"{schema}".', '"memory".')
            assert named == str(expected)


async def test_a_waiting_migration_holds_no_transaction(empty_database: Database) -> None:
    """So that a pooler's connection is free for the one that works, and no snapshot is held."""
    await migrate(Dsn(empty_database.dsn), revision="0002")
    blocker = await asyncpg.connect(empty_database.dsn)
    try:
        await blocker.execute("BEGIN; LOCK TABLE memory.memories")
        working = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until_blocked(empty_database)
        waiting = asyncio.create_task(migrate(Dsn(empty_database.dsn)))
        await until(
            empty_database,
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' "
            "AND query LIKE 'ROLLBACK%'",
        )
        assert not working.done()
        assert not waiting.done()
        await blocker.execute("COMMIT")
        assert [await working, await waiting] == [REVISION, REVISION]
    finally:
        await blocker.close()


@pytest.mark.parametrize("schema", ["memory", "other"])
async def test_no_lock_stays_behind(empty_database: Database, schema: str) -> None:
    await migrate(Dsn(empty_database.dsn), schema=schema)
    await until(
        empty_database,
        "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
