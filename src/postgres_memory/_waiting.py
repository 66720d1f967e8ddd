"""Waiting to the end for what must not go on alone, however often whoever waits is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

#: Seconds that the server has to answer when a call gives up what it began; then the connection is given up too.
LETTING_GO = 5.0


async def finished(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait until all ``tasks`` are over; a cancellation is raised only then. What they raised is not."""
    cancelled = False
    while under_way := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(under_way)
        except asyncio.CancelledError:
            cancelled = True
    for task in tasks:
        if not task.cancelled():
            task.exception()  # so that nobody says it was never retrieved
    if cancelled:
        raise asyncio.CancelledError


async def through(call: Callable[[], Awaitable[object]]) -> None:
    """Make a call and wait for its end, however often the waiting is cancelled."""

    async def run() -> None:
        await call()

    task = asyncio.create_task(run())
    await finished([task])
    task.result()
