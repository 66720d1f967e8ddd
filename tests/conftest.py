"""A real PostgreSQL for every test: the embedded one, the one that POSTGRES_MEMORY_TEST_DSN names, or a container.

Each test that asks for ``database`` gets a database of its own, cloned from a migrated template. With
POSTGRES_MEMORY_TEST_POOLER, the name of a PgBouncer, or the DSN of one before that server, memories reach it through a
pooler.

With POSTGRES_MEMORY_TEST_IMAGE, the server is a container of that image, and with POSTGRES_MEMORY_TEST_POOLER_IMAGE the
pooler is one too. Where POSTGRES_MEMORY_TEST_SKIP says why there can be no containers, the tests are skipped.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._embedded import EmbeddedServer
from postgres_memory.config import MIGRATION_DSN_VARIABLE, Dsn
from postgres_memory.migrations import migrate

from .containers import pooler_container, server_container
from .pooler import find_pooler, pooler
from .scratch import is_in_memory, make_scratch

TEST_DSN = "POSTGRES_MEMORY_TEST_DSN"
POOLER = "POSTGRES_MEMORY_TEST_POOLER"
IMAGE = "POSTGRES_MEMORY_TEST_IMAGE"
POOLER_IMAGE = "POSTGRES_MEMORY_TEST_POOLER_IMAGE"
SKIP = "POSTGRES_MEMORY_TEST_SKIP"
FOLDER = "POSTGRES_MEMORY_TEST_FOLDER"

#: The server of a test run may forget everything; that makes it fast.
FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; ``dsn`` names its maintenance database, ``pooled_dsn`` a pooler before it, if there is one."""

    dsn: str
    pooled_dsn: str | None = None
    #: Its files are in memory, where copying them is cheaper than logging what is in them.
    in_memory: bool = False

    def dsn_of(self, database: str, *, pooled: bool = False) -> str:
        dsn = self.pooled_dsn if pooled and self.pooled_dsn else self.dsn
        return urlunsplit(urlsplit(dsn)._replace(path=f"/{database}"))

    async def run(self, statement: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def create_database(self, options: str = "") -> str:
        """Create a database with a name of its own and return the name."""
        name = f"pm_{os.getpid()}_{next(_numbers)}"
        strategy = "STRATEGY FILE_COPY" if self.in_memory else ""
        await self.run(f'CREATE DATABASE "{name}" {options} {strategy}')
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
        """What memories are opened with."""
        return self.server.dsn_of(self.name, pooled=True)

    @property
    def direct_dsn(self) -> str:
        """What a test looks behind their backs with: past a pooler."""
        return self.server.dsn_of(self.name)


def pytest_configure(config: pytest.Config) -> None:
    """Make one folder for the files and the embedded server of this run; the processes of pytest-xdist inherit it.

    A shell in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if FOLDER not in os.environ:
        scratch = make_scratch()
        config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))
        os.environ[FOLDER] = str(scratch / "server")
    if IMAGE in os.environ and SKIP not in os.environ and not hasattr(config, "workerinput"):
        start_containers(config)


def start_containers(config: pytest.Config) -> None:
    """Start the containers that the environment names, for as long as this run lasts; its processes share them."""
    with ExitStack() as stack:
        dsn, address = stack.enter_context(server_container(os.environ[IMAGE]))
        os.environ[TEST_DSN] = dsn
        if POOLER_IMAGE in os.environ:
            os.environ[POOLER] = stack.enter_context(pooler_container(os.environ[POOLER_IMAGE], address))
        config.add_cleanup(stack.pop_all().close)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip everything, by name, where the environment says why."""
    if SKIP in os.environ:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=os.environ[SKIP]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Here, since the process that prints imports no other conftest where pytest-xdist runs the tests."""
    from .faults.summary import write_summary

    write_summary(terminalreporter)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of this run, shared by all of its processes."""
    with served() as dsn, pooled(dsn) as pooled_dsn:
        in_memory = TEST_DSN not in os.environ and is_in_memory(Path(os.environ[FOLDER]))
        yield Server(dsn, pooled_dsn, in_memory)


@contextmanager
def pooled(dsn: str) -> Iterator[str | None]:
    """Give the DSN of the pooler that the environment names, starting it if it is a program."""
    named = os.environ.get(POOLER)
    if not named or "://" in named:
        yield named
        return
    program = find_pooler(named)
    assert program is not None, f"{POOLER} names {named}, which is not installed"
    with pooler(program, dsn) as started:
        yield started


@contextmanager
def served() -> Iterator[str]:
    """Give the DSN of the server that the environment names, or of the embedded one."""
    named = os.environ.get(TEST_DSN)
    if named:
        yield named
        return
    embedded = EmbeddedServer(Path(os.environ[FOLDER]), settings=FORGETFUL)
    dsn = asyncio.run(embedded.start())
    try:
        yield dsn
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
async def database(server: Server, template: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A migrated database of this test's own. Indexes are built past a pooler."""
    made = Database(server, await server.create_database(f'TEMPLATE "{template}"'))
    if server.pooled_dsn:
        monkeypatch.setenv(MIGRATION_DSN_VARIABLE, made.direct_dsn)
    yield made
    await server.drop_database(made.name)


@pytest.fixture
async def memory(database: Database) -> AsyncIterator[PostgresMemory]:
    """An opened memory on a database of its own."""
    async with PostgresMemory(database.dsn) as opened:
        yield opened
