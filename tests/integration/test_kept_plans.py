"""What is called often is planned five times on a connection, and not anew for each call, whatever it is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from postgres_memory import MemoryPermissions, PostgresMemory
from postgres_memory.postgres import Verbs
from tests.conftest import Database

MEMORIES = 2_000
TIMES = 9
PLANS = """
SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements
WHERE statement LIKE '%memory.memor%' OR statement LIKE '%of a principal'
"""

Call = Callable[[Verbs, int], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "get": lambda verbs, n: verbs.get(f"m{n}"),
    "get_many": lambda verbs, n: verbs.get_many([f"m{one}" for one in range(n + 1)]),
    "find": lambda verbs, n: verbs.find(limit=10 + n),
    "search": lambda verbs, n: verbs.search(f"tea number {n}", 1 + n),
    "recall": lambda verbs, n: verbs.recall(f"tea number {n}", limit=1 + n),
    "recall of the nearest": lambda verbs, n: verbs.recall(f"tea {'x' * n}", ranking="vector"),
    "relations": lambda verbs, n: verbs.relations(f"m{n}"),
    "related": lambda verbs, n: verbs.related(f"m{n}"),
    "store": lambda verbs, n: verbs.store(f"a new tea {n}"),
    "add": lambda verbs, n: verbs.add(f"another new tea {n}"),
    "update": lambda verbs, n: verbs.update(f"m{n}", importance=n / 10),
    "relate": lambda verbs, n: verbs.relate(f"m{n}", f"m{n + 1}", "supports"),
    "unrelate": lambda verbs, n: verbs.unrelate(f"m{n}", f"m{n + 1}", "related"),
    "archive": lambda verbs, n: verbs.archive(f"m{n}"),
    "restore": lambda verbs, n: verbs.restore(f"m{n}"),
    "supersede": lambda verbs, n: verbs.supersede(f"m{n + 50}", f"a newer tea {n}"),
    "history": lambda verbs, n: verbs.history(f"m{n}"),
    "delete": lambda verbs, n: verbs.delete(f"m{n}"),
}


def by_length(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


async def fill(memory: PostgresMemory, database: Database) -> None:
    await memory.add_many(
        {
            "id": f"m{number}",
            "content": f"tea and cake number {number}",
            "permissions": MemoryPermissions("alice" if number < MEMORIES // 10 else "bob"),
        }
        for number in range(MEMORIES)
    )
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


@pytest.mark.parametrize("who", ["the backend", "a principal"])
async def test_no_call_is_planned_each_time(database: Database, who: str) -> None:
    planned = {}
    async with (
        asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool,
        PostgresMemory(pool, embedder=by_length, space="length", access_tracking="off") as memory,
    ):
        await fill(memory, database)
        verbs: Verbs = memory if who == "the backend" else memory.as_principal("alice")
        for name, call in CALLS.items():
            before = {row["statement"]: row["custom_plans"] for row in await pool.fetch(PLANS)}
            for number in range(TIMES):
                await call(verbs, number)
            for statement, generic, custom in await pool.fetch(PLANS):
                if custom - before.get(statement, 0) > 5:
                    planned[name] = (statement[:60], generic, custom)
    assert planned == {}
