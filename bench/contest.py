"""What the benchmarks share: a server, sentences, and taking turns."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from postgres_memory import PostgresMemory
from postgres_memory._embedded import EmbeddedServer

_WHO = ("the user", "our team", "a customer", "the landlord", "my sister", "the vendor", "an auditor")
_DID = (
    "prefers",
    "cancelled",
    "ordered",
    "returned",
    "asked about",
    "repaired",
    "moved",
    "forgot",
    "recommends",
)
_WHAT = (
    "dark mode",
    "the blue bicycle",
    "a window seat",
    "green tea",
    "the spare key",
    "two invoices",
    "the old router",
)
_WHY = (
    "because the last one broke",
    "before the end of May",
    "after the call on Monday",
    "to save some money",
)


def sentence(number: int) -> str:
    """Return a sentence of about 100 characters, always the same for a number."""
    pick = random.Random(number).choice
    what = f"{pick(_WHAT)} and {pick(_WHAT)}"
    return f"On day {number % 29 + 1} {pick(_WHO)} {pick(_DID)} {what} {pick(_WHY)}, note {number}."


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """Give the DSN of a migrated database on a server with durable settings."""
    named = os.environ.get("POSTGRES_MEMORY_BENCH_DSN")
    folder = Path(tempfile.mkdtemp(prefix="pm-bench-"))
    server = (
        None if named else EmbeddedServer(folder, settings={"shared_buffers": "1GB", "max_wal_size": "4GB"})
    )
    dsn = named if server is None else await server.start()
    assert dsn is not None
    try:
        await PostgresMemory(dsn).migrate()
        yield dsn
    finally:
        if server is not None:
            await server.stop()
        shutil.rmtree(folder, ignore_errors=True)


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
