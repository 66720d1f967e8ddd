"""One client: `store` and `search` beside the same statement and a bare table, hand-written."""

from __future__ import annotations

import asyncio
import json

import asyncpg
from contest import database, report, sentence, take_turns

from postgres_memory import PostgresMemory
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.searching import search_short_query
from postgres_memory._sql.storing import store_memory
from postgres_memory.embedding.counting import squared_norm
from postgres_memory.embedding.hashing import hash_counts, hash_embedding
from postgres_memory.ids import new_id

FLOOR_TABLE = """
CREATE TABLE IF NOT EXISTS floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, content text NOT NULL,
metadata jsonb NOT NULL, embedding vector(32) NOT NULL)
"""
FLOOR_STORE = (
    "INSERT INTO floor (content, metadata, embedding) VALUES ($1, $2::text::jsonb, $3::real[]::vector)"
)
FLOOR_SEARCH = """
SELECT content, metadata::text, 1 - (embedding <=> q.v) AS score FROM floor, (SELECT $1::real[]::vector AS v) q
ORDER BY embedding <=> q.v LIMIT $2
"""


async def main() -> None:
    async with database() as dsn, PostgresMemory(dsn, namespace="bench") as memory:
        connection = await asyncpg.connect(dsn)
        await connection.execute(FLOOR_TABLE)
        catalog = Catalog("memory", "public")
        await stores(memory, connection, catalog)
        for rows in (1_000, 10_000, 100_000):
            await fill(memory, connection, rows)
            await searches(memory, connection, catalog, rows)
        await connection.close()


async def stores(memory: PostgresMemory, connection: asyncpg.Connection, catalog: Catalog) -> None:
    statement = catalog.statement(store_memory)
    same, floor = await connection.prepare(statement.sql), await connection.prepare(FLOOR_STORE)

    async def by_hand(number: int) -> None:
        content = sentence(number)
        values = {
            "namespace": "same",
            "id": new_id(),
            "content": content,
            "metadata": json.dumps({"i": number}),
            "counts": hash_counts(content),
        }
        await same.fetch(*(values[name] for name in statement.parameters))

    async def bare(number: int) -> None:
        content = sentence(number)
        await floor.fetch(content, json.dumps({"i": number}), hash_embedding(content))

    ours = lambda number: memory.store(sentence(number), {"i": number})  # noqa: E731
    report("store, 1 client", await take_turns({"ours": ours, "SAME": by_hand, "FLOOR": bare}, 2_000))


async def searches(
    memory: PostgresMemory, connection: asyncpg.Connection, catalog: Catalog, rows: int
) -> None:
    statement = catalog.statement(search_short_query)
    same, floor = await connection.prepare(statement.sql), await connection.prepare(FLOOR_SEARCH)

    async def by_hand(number: int) -> None:
        counts = hash_counts(sentence(-number))
        values = {
            "namespace": "bench",
            "counts": counts,
            "query_norm": float(squared_norm(counts)),
            "limit": 5,
        }
        found = await same.fetch(*(values[name] for name in statement.parameters))
        [json.loads(row["metadata"]) for row in found]

    async def bare(number: int) -> None:
        found = await floor.fetch(hash_embedding(sentence(-number)), 5)
        [json.loads(row["metadata"]) for row in found]

    contestants = {"ours": lambda number: memory.search(sentence(-number)), "SAME": by_hand, "FLOOR": bare}
    report(f"search, {rows:,} rows", await take_turns(contestants, 300 if rows < 100_000 else 60))


async def fill(memory: PostgresMemory, connection: asyncpg.Connection, rows: int) -> None:
    await memory.clear()
    await memory.add_many({"content": sentence(n), "metadata": {"i": n}} for n in range(rows))
    await connection.execute("TRUNCATE floor")
    numbers = range(rows)
    for start in range(0, rows, 5_000):
        part = numbers[start : start + 5_000]
        await connection.execute(
            "INSERT INTO floor (content, metadata, embedding) SELECT c, m::jsonb, v::vector "
            "FROM unnest($1::text[], $2::text[], $3::text[]) AS rows(c, m, v)",
            [sentence(n) for n in part],
            [json.dumps({"i": n}) for n in part],
            [str(hash_embedding(sentence(n))) for n in part],
        )
    await connection.execute("VACUUM ANALYZE")


if __name__ == "__main__":
    asyncio.run(main())
