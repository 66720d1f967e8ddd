"""Waiting for what comes by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], *, seconds: float = 60.0, pause: float = 0.002) -> None:
    """Wait until ``condition`` holds; fail if it does not within ``seconds``."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    for _ in iter(lambda: condition() or loop.time() > end, True):
        await asyncio.sleep(pause)
    assert condition(), f"{condition} does not hold after {seconds} s"
