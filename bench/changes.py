"""What the change feed costs: each verb where it is on (`ours`), on without NOTIFY (`unsaid`), and off (`off`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
from contest import database, report, take_turns
from suite.texts import sentence

from postgres_memory import PostgresMemory

#: Memories of a namespace to begin with, and tasks that store at once.
SIZE, TASKS = 1_000, 16


async def main() -> None:
    async with database() as dsn, asyncpg.create_pool(dsn, min_size=1, max_size=TASKS) as pool:
        contestants = {}
        for name in ("ours", "unsaid", "off"):
            memory = contestants[name] = PostgresMemory(pool, namespace=name, access_tracking="off")
            await memory.add_many({"content": sentence(number), "id": str(number)} for number in range(SIZE))
        await contestants["ours"].enable_changes()
        await contestants["unsaid"].enable_changes(notify=False)
        await pool.execute("VACUUM ANALYZE")
        calls = {name: of(memory) for name, memory in contestants.items()}
        for verb in calls["off"]:
            rounds = 20 if verb.startswith("add_many") else 300
            report(verb, await take_turns({name: by[verb] for name, by in calls.items()}, rounds))


def of(memory: PostgresMemory) -> dict[str, Callable[[int], Awaitable[object]]]:
    async def at_once(number: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for task in range(TASKS):
                tasks.create_task(memory.store(sentence(TASKS * number + task)))

    return {
        "store": lambda number: memory.store(sentence(number)),
        f"store, {TASKS} tasks": at_once,
        "add": lambda number: memory.add(sentence(number), tags=["a"]),
        "update": lambda number: memory.update(str(number % SIZE), importance=number % 10 / 10),
        "relate": lambda number: memory.relate(str(number % SIZE), str((number + 1) % SIZE), "related"),
        "add_many 1,000": lambda number: memory.add_many([sentence(one) for one in range(SIZE)]),
        "delete": lambda number: memory.delete(str(number)),
    }


if __name__ == "__main__":
    asyncio.run(main())
