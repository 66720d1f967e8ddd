"""What breaks, as fixtures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate

from ..conftest import Database
from ..integration.proxy import Proxy, proxied
from .server import BreakableServer, breakable_server

pytest.register_assert_rewrite("tests.faults.campaign")
from .campaign import Record  # noqa: E402


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    """A TCP proxy before a migrated database."""
    async with proxied(database) as given:
        yield given


@pytest.fixture(scope="session")
def breakable() -> Iterator[BreakableServer]:
    """A server of this process's own, which may be broken."""
    with breakable_server() as server:
        yield server


@pytest.fixture(scope="session")
def breakable_template(breakable: BreakableServer) -> str:
    """A migrated database that each test's is cloned from."""
    name = asyncio.run(breakable.server.create_database("TEMPLATE template0 ENCODING 'UTF8'"))
    asyncio.run(migrate(Dsn(breakable.server.dsn_of(name))))
    return name


@pytest.fixture
async def field(breakable: BreakableServer, breakable_template: str) -> AsyncIterator[Database]:
    """A migrated database on the server that may be broken, which runs again afterwards."""
    await breakable.start()
    name = await breakable.server.create_database(f'TEMPLATE "{breakable_template}"')
    yield Database(breakable.server, name)
    await breakable.start()
    await breakable.server.drop_database(name)


@pytest.fixture
async def way(field: Database) -> AsyncIterator[Proxy]:
    """A TCP proxy before that database."""
    async with proxied(field) as given:
        yield given


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Notes what a test did, for the summary."""
    return lambda name, value: request.node.user_properties.append((name, value))
