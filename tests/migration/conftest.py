"""Databases for migrations: pairs of empty ones, and databases made in special ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.conftest import Database, Server

MakeDatabase = Callable[..., Awaitable[Database]]


@pytest.fixture
async def make_database(server: Server) -> AsyncIterator[MakeDatabase]:
    """A function that makes a database; all are dropped after the test."""
    names = []

    async def make(options: str = "TEMPLATE template0 ENCODING 'UTF8'") -> Database:
        names.append(await server.create_database(options))
        return Database(server, names[-1])

    yield make
    for name in names:
        await server.drop_database(name)


@pytest.fixture
async def two_databases(make_database: MakeDatabase) -> tuple[Database, Database]:
    """Two empty databases."""
    return await make_database(), await make_database()
