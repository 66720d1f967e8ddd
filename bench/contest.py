"""What the smaller benchmarks share: a migrated database, and taking turns."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from suite.server import server

from postgres_memory import PostgresMemory


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """Give the DSN of a migrated database on a server with durable settings."""
    async with server() as dsn:
        await PostgresMemory(dsn).migrate()
        yield dsn


async def take_turns(
    contestants: dict[str, Callable[[int], Awaitable[object]]], rounds: int
) -> dict[str, list[float]]:
    """Call each contestant once per round, in turn; return the seconds of every call but the first tenth."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, call in contestants.items():
            begin = time.perf_counter()
            await call(number)
            times[name].append(time.perf_counter() - begin)
        await asyncio.sleep(0)
    return {name: seconds[rounds // 10 :] for name, seconds in times.items()}


def report(title: str, times: dict[str, list[float]]) -> None:
    """Print medians in milliseconds and how many times the others' ours is."""
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    shown = "  ".join(f"{name} {1e3 * median:7.3f} ms" for name, median in medians.items())
    ratios = "  ".join(
        f"{medians['ours'] / median:.2f} x {name}" for name, median in medians.items() if name != "ours"
    )
    print(f"{title:24} {shown}   ours = {ratios}")
