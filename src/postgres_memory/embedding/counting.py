"""Shingle counts for a coroutine: short texts at once, long ones on a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio

from .hashing import hash_counts

_LONG = 50_000


async def counts_of(text: str) -> list[int]:
    """Return the 32 shingle counts of ``text``."""
    if len(text) < _LONG:
        return hash_counts(text)
    return await asyncio.to_thread(hash_counts, text)


def squared_norm(counts: list[int]) -> int:
    """Return the sum of squares of ``counts``, and 1 for a zero vector, which then has cosine 0 to everything."""
    return sum(count * count for count in counts) or 1
