"""The server that all contestants share, and a database for each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from postgres_memory import PostgresMemory
from postgres_memory._embedded import EmbeddedServer

#: Durable, as a server is; an index of a million vectors is built in memory.
SETTINGS = {
    "shared_buffers": "1GB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "4GB",
    "max_connections": "300",
}
DSN = "POSTGRES_MEMORY_BENCH_DSN"


@asynccontextmanager
async def server(**settings: str) -> AsyncIterator[str]:
    """Give the DSN of the server that the environment names, or of an embedded one with these settings, too."""
    named = os.environ.get(DSN)
    if named:
        yield named
        return
    folder = Path(tempfile.mkdtemp(prefix="pm-bench-"))
    embedded = EmbeddedServer(folder, settings=SETTINGS | settings)
    try:
        yield await embedded.start()
    finally:
        await embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Databases:
    """Makes databases on a server and drops them; those with our schema are copies of one that was migrated."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._template: str | None = None
        self._made: set[str] = set()

    def dsn_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{name}"))

    async def run(self, *statements: str, name: str | None = None) -> None:
        connection = await asyncpg.connect(self.dsn if name is None else self.dsn_of(name))
        try:
            for statement in statements:
                await connection.execute(statement, timeout=3_600)
        finally:
            await connection.close()

    async def make(self, label: str, *, migrated: bool) -> str:
        """Make a database of this process's own, anew if it is there, and return its name."""
        if migrated and self._template is None:
            self._template = await self.make("template", migrated=False)
            await PostgresMemory(self.dsn_of(self._template)).migrate()
        name = f"pm_bench_{os.getpid()}_{label}"
        await self.drop(name)
        template = self._template if migrated else "template0"
        await self.run(f"CREATE DATABASE \"{name}\" TEMPLATE {template} ENCODING 'UTF8'")
        self._made.add(name)
        return name

    async def drop(self, name: str) -> None:
        await self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self._made.discard(name)

    async def tidy(self, name: str) -> None:
        """Gather statistics and write out what is dirty, as time does."""
        await self.run("VACUUM ANALYZE", "CHECKPOINT", name=name)

    async def drop_all(self) -> None:
        for name in sorted(self._made):
            await self.drop(name)
