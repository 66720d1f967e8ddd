"""A real PostgreSQL for every test: the embedded one, or the one that POSTGRES_MEMORY_TEST_DSN names.

Each test that asks for ``database`` gets a database of its own, cloned from a migrated template.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._embedded import EmbeddedServer
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate

TEST_DSN = "POSTGRES_MEMORY_TEST_DSN"
FOLDER = "POSTGRES_MEMORY_TEST_FOLDER"

#: The server of a test run may forget everything; that makes it fast.
FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; ``dsn`` names its maintenance database."""

    dsn: str

    def dsn_of(self, database: str) -> str:
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{database}"))

    async def run(self, statement: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def create_database(self, options: str = "") -> str:
        """Create a database with a name of its own and return the name."""
        name = f"pm_{os.getpid()}_{next(_numbers)}"
        await self.run(f'CREATE DATABASE "{name}" {options}')
        return name

    async def drop_database(self, name: str) -> None:
        await self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one test."""

    server: Server
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.name)


def pytest_configure(config: pytest.Config) -> None:
    """Name one folder for the embedded server of this run; the processes of pytest-xdist inherit it.

    A shell in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="pm-tests-")
        config.add_cleanup(remove_folder)


def remove_folder() -> None:
    shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of this run, shared by all of its processes."""
    named = os.environ.get(TEST_DSN)
    if named:
        yield Server(named)
        return
    embedded = EmbeddedServer(Path(os.environ[FOLDER]), settings=FORGETFUL)
    dsn = asyncio.run(embedded.start())
    try:
        yield Server(dsn)
    finally:
        asyncio.run(embedded.stop())


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    """A migrated database that each test's is cloned from."""
    name = asyncio.run(server.create_database("TEMPLATE template0 ENCODING 'UTF8'"))
    asyncio.run(migrate(Dsn(server.dsn_of(name))))
    yield name
    asyncio.run(server.drop_database(name))


@pytest.fixture
async def empty_database(server: Server) -> AsyncIterator[Database]:
    """A database without our schema."""
    name = await server.create_database("TEMPLATE template0 ENCODING 'UTF8'")
    yield Database(server, name)
    await server.drop_database(name)


@pytest.fixture
async def database(server: Server, template: str) -> AsyncIterator[Database]:
    """A migrated database of this test's own."""
    name = await server.create_database(f'TEMPLATE "{template}"')
    yield Database(server, name)
    await server.drop_database(name)


@pytest.fixture
async def memory(database: Database) -> AsyncIterator[PostgresMemory]:
    """An opened memory on a database of its own."""
    async with PostgresMemory(database.dsn) as opened:
        yield opened
