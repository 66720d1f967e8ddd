"""Fixtures that several files of these tests share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._database import Database as Connections
from postgres_memory._sql.compile import Statement, catalog
from tests.conftest import POOLER, Database
from tests.integration.export_files import build
from tests.integration.export_namespaces import opened
from tests.integration.permission_model import World, one_of_each

#: Statements with their arguments.
Ran = list[tuple[Statement, list[Any]]]

#: What cannot by nature be tried through a pooler, and why: whole files, and tests.
NOT_THROUGH_A_POOLER = {
    "test_embedded": "it starts servers of its own",
    "test_embedded_sharing": "it starts servers of its own",
    "test_embedding_endpoint": "it opens no memory",
    "test_embedding_onnx": "it opens no memory",
    "test_hash_identity": "it asks the server itself",
    "test_json_roundtrip": "it asks the server itself",
    "test_a_timeout_of_the_database_is_no_trouble_with_the_file": "it sends a start-up parameter",
    "test_an_outage_delays_the_counts_and_memory_stays_bounded": "a pooler waits until its server is back",
    "test_usable_once_it_is_migrated": "it counts the server's connections, which a pooler keeps",
    "test_close_is_idempotent": "it counts the server's connections, which a pooler keeps",
    "test_close_lets_calls_finish": "it counts the server's connections, which a pooler keeps",
    "test_a_borrowed_pool_keeps_its_codecs_and_its_life": "a way past the pooler is named, so that it can migrate",
    "test_an_index_of_the_space_is_used_where_there_is_much": "sessions that a pooler keeps tell later what they read",
    "test_the_plan_is_kept_after_five_queries": "nothing stays prepared there",
    "test_stdout_is_the_protocols_and_the_end_is_clean": "it counts the server's connections, which a pooler keeps",
    "test_an_outage_is_told_without_names": "a pooler waits until its server is back",
    "test_no_error_and_no_log_holds_the_password": "the pooler of the tests trusts everybody",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if POOLER in os.environ else []:
        for name in (item.path.stem, item.name.partition("[")[0]):
            if name in NOT_THROUGH_A_POOLER:
                item.add_marker(
                    pytest.mark.skip(reason=f"not through a pooler: {NOT_THROUGH_A_POOLER[name]}")
                )


@pytest.fixture
async def full(database: Database) -> AsyncIterator[PostgresMemory]:
    """A namespace with a bit of everything, in the database of the test."""
    async with opened(database, "full") as memory:
        await build(memory, database.direct_dsn)
        yield memory


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The statements that ran, with their arguments."""
    statements: Ran = []
    fetch = Connections.fetch

    async def noted(
        self: Connections[Any], statement: Statement, parameters: Mapping[str, Any], *rest: Any
    ) -> list[asyncpg.Record]:
        statements.append((statement, [parameters[name] for name in statement.parameters]))
        return await fetch(self, statement, parameters, *rest)

    monkeypatch.setattr(Connections, "fetch", noted)
    return statements


@pytest.fixture
def statements_anew() -> Iterator[None]:
    """Have statements compiled for this test alone, whose numbers it changes."""
    catalog.cache_clear()
    yield
    catalog.cache_clear()


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    """A memory of each kind of permissions, on a pool that lends connections."""
    async with (
        asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=4) as pool,
        PostgresMemory(pool, access_tracking="off") as memory,
    ):
        yield World(memory, pool, await one_of_each(memory))
