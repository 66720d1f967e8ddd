"""Fixtures that several files of these tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from postgres_memory import PostgresMemory
from tests.conftest import Database
from tests.integration.export_files import build
from tests.integration.export_namespaces import opened


@pytest.fixture
async def full(database: Database) -> AsyncIterator[PostgresMemory]:
    """A namespace with a bit of everything, in the database of the test."""
    async with opened(database, "full") as memory:
        await build(memory, database.dsn)
        yield memory
