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
_ATOMS = frozenset({str, int, float, bool, type(None)})
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
    """Return about how many bytes an item takes, with everything in it.

    What several items share, or one holds twice, counts each time: it is written as often.
    """
    if type(item) is not dict:
        return getsizeof(item) if type(item) is str else _size_by_parts(item)
    size = 0
    for part in item.values():
        if type(part) in _ATOMS:
            size += getsizeof(part)
        elif type(part) is dict and _ATOMS.issuperset(map(type, part.values())):
            size += sum(map(getsizeof, part)) + sum(map(getsizeof, part.values()))
        else:
            return _size_by_parts(item)
    return size


def _size_by_parts(item: object) -> int:
    """Add up the parts; this ends where it is too much for any batch, as with what contains itself."""
    size = 0
    parts = [item]
    for part in parts:  # which grows meanwhile
        size += getsizeof(part, 0)
        if isinstance(part, dict | Mapping):
            parts += part
            parts += part.values()
        elif isinstance(part, list | tuple | set | frozenset):
            parts += part
        elif isinstance(part, _RECORDS):
            parts += [getattr(part, name) for name in part.__slots__]
        if size > MAX_BATCH_BYTES:
            break
    return size
