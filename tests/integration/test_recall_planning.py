"""`recall` is prepared once per connection, and not planned anew for each query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from postgres_memory import PostgresMemory

if TYPE_CHECKING:
    from tests.conftest import Database

PLANS = """
SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE 'WITH%lexical_terms%best%'
"""


def by_length(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


async def fill(memory: PostgresMemory, dsn: str) -> None:
    await memory.add_many(
        {"content": f"tea and cake number {number}", "thread_id": "t"} for number in range(300)
    )
    connection = await asyncpg.connect(dsn)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def test_the_plan_is_kept_after_five_queries(database: Database) -> None:
    for embedder in (None, by_length):
        namespace = "words" if embedder is None else "vectors"
        async with PostgresMemory(
            database.dsn, namespace=namespace, embedder=embedder, space="length" if embedder else None
        ) as memory:
            await fill(memory, database.dsn)
            async with memory.transaction() as inside:
                for number in range(9):
                    await inside.recall(
                        f"cake number {number} or tea, what do you think of it?"[: 30 + number]
                    )
                connection = inside._context.connection
                assert connection is not None
                assert [tuple(row) for row in await connection.fetch(PLANS)] == [(4, 5)]
