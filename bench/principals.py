"""What access control costs: each verb as a principal (`ours`) beside the same one as the trusted backend.

A principal reads one memory in ten of the namespace; `alone` is the backend on a namespace that holds only those.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
from contest import database, report, take_turns
from suite.texts import sentence

from postgres_memory import MemoryPermissions, PostgresMemory
from postgres_memory.postgres import Verbs

SIZES = (1_000, 20_000)


async def main() -> None:
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    async with database() as dsn, asyncpg.create_pool(dsn, min_size=1, max_size=2) as pool:
        for size in sizes:
            shared = PostgresMemory(pool, namespace=f"shared {size}", access_tracking="off")
            alone = PostgresMemory(pool, namespace=f"alone {size}", access_tracking="off")
            await shared.add_many(memories(size, 10))
            await alone.add_many(memories(size // 10, 1))
            await pool.execute("VACUUM ANALYZE")
            await compare(size, {"ours": shared.as_principal("p0"), "backend": shared, "alone": alone})


def memories(count: int, owners: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"content": sentence(number), "permissions": MemoryPermissions(f"p{number % owners}")}


async def compare(size: int, contestants: dict[str, Verbs]) -> None:
    ids = {
        name: [record.id for record in (await verbs.find(limit=50)).items]
        for name, verbs in contestants.items()
    }

    def of(verbs: Verbs, name: str) -> dict[str, Callable[[int], Awaitable[object]]]:
        return {
            "get": lambda number: verbs.get(ids[name][number % 50]),
            "store": lambda number: verbs.store(sentence(number)),
            "update": lambda number: verbs.update(ids[name][number % 50], importance=number % 10 / 10),
            "search": lambda number: verbs.search(sentence(number)),
            "recall": lambda number: verbs.recall(sentence(number)),
            "find 10": lambda _: verbs.find(limit=10),
            "count": lambda _: verbs.count(),
        }

    calls = {name: of(verbs, name) for name, verbs in contestants.items()}
    for verb in calls["ours"]:
        rounds = 20 if verb in ("recall", "search", "count") else 200
        report(
            f"{verb}, {size} memories",
            await take_turns({name: by[verb] for name, by in calls.items()}, rounds),
        )


if __name__ == "__main__":
    asyncio.run(main())
