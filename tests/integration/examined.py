"""What the tests of `doctor` share: asking one check, harming a database, and a server that nothing is wrong with."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from postgres_memory import Finding, PostgresMemory
from postgres_memory._embedded import EmbeddedServer
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate
from tests.conftest import Database, Server


async def execute(database: Database, *statements: str) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def findings(memory: PostgresMemory, check: str) -> tuple[Finding, ...]:
    """What one check sees now."""
    return (await memory.doctor()).of(check)


async def finding(memory: PostgresMemory, check: str) -> Finding:
    """The one thing that a check sees now."""
    (found,) = await findings(memory, check)
    return found


def dsn_of(dsn: str, role: str) -> str:
    """The same database for another login."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=f"{quote(role)}@{parts.netloc.rpartition('@')[2]}"))


async def leave_invalid(database: Database, table: str, statement: str) -> None:
    """Begin to build an index CONCURRENTLY, which waits for another transaction, and cancel it there."""
    holder, builder = [await asyncpg.connect(database.direct_dsn) for _ in range(2)]
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute(f"LOCK TABLE memory.{table} IN ROW EXCLUSIVE MODE")
        building = asyncio.create_task(builder.execute(statement))
        waits = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted"
        while not await holder.fetchval(waits, builder.get_server_pid()):
            await holder.execute("SELECT pg_sleep(0.01)")
        await holder.execute(f"SELECT pg_cancel_backend({builder.get_server_pid()})")
        await asyncio.gather(building, return_exceptions=True)
        await transaction.rollback()
    finally:
        await holder.close()
        await builder.close()


@asynccontextmanager
async def healthy_database(**settings: str) -> AsyncIterator[Database]:
    """A server as it is installed, but for ``settings``, and a database that is its application's own."""
    folder = Path(tempfile.mkdtemp(prefix="pm-healthy-"))
    embedded = EmbeddedServer(folder, settings=settings)
    try:
        server = Server(await embedded.start())
        for statement in (
            "CREATE ROLE postgres_memory_principal",
            "CREATE ROLE app LOGIN",
            "GRANT postgres_memory_principal TO app WITH INHERIT FALSE, SET TRUE",
            "CREATE DATABASE healthy OWNER app TEMPLATE template0 ENCODING 'UTF8'",
        ):
            await server.run(statement)
        await execute(Database(server, "healthy"), "CREATE EXTENSION vector")
        own = Database(Server(dsn_of(server.dsn, "app")), "healthy")
        await migrate(Dsn(own.dsn))
        yield own
    finally:
        await embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)
