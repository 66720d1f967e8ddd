"""Bulk loading, before all else: the caller's items, cut into batches of a bounded number and a bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from sys import getsizeof

from .._validation import kind_of
from ..errors import InvalidTypeError
from ..records import MemoryPermissions, MemoryRecord, MemoryRelation

#: A batch ends before its items take more bytes than this, so that no length of texts or metadata fills the memory.
MAX_BATCH_BYTES = 8 * 1024 * 1024

#: Items read from an ordinary iterable before the event loop gets its turn.
_TURN = 500
_SMALL = frozenset({int, float, bool, type(None)})
_SMALL_BYTES = 32
_RECORDS = (MemoryRecord, MemoryRelation, MemoryPermissions)


async def read_batches(
    items: Iterable[object] | AsyncIterable[object], batch_size: int
) -> AsyncIterator[tuple[int, list[object]]]:
    """Give (index of the first, items) of each batch; a batch that is full is given before the next item is asked for.

    Raises InvalidTypeError for what is no iterable of items, and what the input raises.
    """
    if isinstance(items, str | bytes | Mapping):
        raise InvalidTypeError("items", f"must be an iterable of memories, not one {kind_of(items)}")
    filling = _Filling(batch_size)
    if isinstance(items, AsyncIterable):
        async for item in items:
            for batch in filling.add(item):
                yield batch
    elif isinstance(items, Iterable):
        for number, item in enumerate(items, 1):
            for batch in filling.add(item):
                yield batch
            if number % _TURN == 0:
                await asyncio.sleep(0)
    else:
        raise InvalidTypeError("items", f"must be an iterable or an async iterable, not {kind_of(items)}")
    if filling.batch:
        yield filling.taken()


class _Filling:
    """The batch that is being filled."""

    def __init__(self, batch_size: int) -> None:
        self.batch: list[object] = []
        self._start = 0
        self._size = 0
        self._batch_size = batch_size

    def add(self, item: object) -> Iterable[tuple[int, list[object]]]:
        """Add an item; return the batches that are full by it: the one it has no room in, and the one it fills."""
        size = size_of(item)
        full = []
        if self.batch and self._size + size > MAX_BATCH_BYTES:
            full.append(self.taken())
        self.batch.append(item)
        self._size += size
        if len(self.batch) >= self._batch_size:
            full.append(self.taken())
        return full

    def taken(self) -> tuple[int, list[object]]:
        """Return what there is and begin anew."""
        taken = self._start, self.batch
        self._start += len(self.batch)
        self.batch, self._size = [], 0
        return taken


def size_of(item: object) -> int:
    """Return the bytes that an item takes with everything in it; counting ends where it is too large for any batch.

    What several items share counts for each: every one of them becomes a row.
    """
    size = 0
    parts: list[object] = [item]
    for part in parts:  # which grows meanwhile
        kind = type(part)
        if kind is str:
            size += getsizeof(part)
        elif kind in _SMALL:
            size += _SMALL_BYTES
        else:
            size += getsizeof(part, _SMALL_BYTES)
            if isinstance(part, dict | Mapping):
                size += sum(map(getsizeof, part))
                parts += part.values()
            elif isinstance(part, list | tuple | set | frozenset):
                parts += part
            elif isinstance(part, _RECORDS):
                parts += [getattr(part, name) for name in part.__slots__]
            if size > MAX_BATCH_BYTES:
                break
    return size
