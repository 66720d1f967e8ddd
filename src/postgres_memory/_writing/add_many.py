"""`add_many`: any stream of memories, in batches, each one transaction; the next is prepared while one is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import get_args

from .._context import Context
from .._validation import check_positive, kind_of
from ..bulk_records import BulkFailure, BulkResult
from ..errors import InvalidTypeError, InvalidValueError
from .adding import Dedupe, OnConflict
from .batches import BatchRefusedError, store_batch
from .preparing import Batch, prepare

#: A batch ends before its contents take more than this, so that long texts do not fill the memory.
_BATCH_CHARACTERS = 8 * 1024 * 1024


@dataclass(slots=True)
class _Tally:
    stored: int = 0
    ignored: int = 0
    not_stored: int = 0
    failed: tuple[BulkFailure, ...] = ()

    def result(self) -> BulkResult:
        return BulkResult(self.stored, self.ignored, self.not_stored, self.failed)


async def add_many(
    context: Context,
    items: Iterable[object] | AsyncIterable[object],
    *,
    batch_size: int,
    on_conflict: OnConflict,
    dedupe: Dedupe | None,
    progress: Callable[[int], object] | None,
) -> BulkResult:
    """Cut the input into batches, prepare each on a thread, write it while the next is prepared."""
    check_positive(batch_size, "batch_size")
    if on_conflict not in get_args(OnConflict):
        raise InvalidValueError("on_conflict", "must be 'error', 'ignore' or 'update'")
    if dedupe not in (None, "content"):
        raise InvalidValueError("dedupe", "must be 'content' or None")
    tally = _Tally()
    writing: asyncio.Task[None] | None = None
    try:
        async for start, given in _batches(items, batch_size):
            batch = await asyncio.to_thread(prepare, context, start, given)
            if writing is not None:
                await writing
            writing = asyncio.create_task(_write(context, batch, on_conflict, dedupe, tally, progress))
        if writing is not None:
            await writing
    except Exception:
        # The input failed. A batch that was read whole before that is stored; cancelling it would leave that to chance.
        if writing is not None:
            await asyncio.wait([writing])
            writing.exception()  # what the input raised is what the caller learns
        raise
    finally:
        if writing is not None and not writing.done():
            writing.cancel()
            await asyncio.wait([writing])
    return tally.result()


async def _write(
    context: Context,
    batch: Batch,
    on_conflict: OnConflict,
    dedupe: Dedupe | None,
    tally: _Tally,
    progress: Callable[[int], object] | None,
) -> None:
    failed = batch.failed()
    if not failed:
        try:
            stored = await store_batch(context, batch, on_conflict, dedupe)
        except BatchRefusedError as refusal:
            batch.failures = refusal.failures
            failed = batch.failed() or (
                BulkFailure(None, str(refusal), (batch.start, batch.start + batch.size)),
            )
        else:
            tally.stored += stored
            tally.ignored += batch.size - stored
    if failed:
        tally.failed += failed
        tally.not_stored += batch.size
    if progress is not None:
        progress(batch.start + batch.size)


async def _batches(
    items: Iterable[object] | AsyncIterable[object], batch_size: int
) -> AsyncIterator[tuple[int, list[object]]]:
    """Give (index of the first, items) of each batch; the event loop gets its turn between them."""
    start = 0
    batch: list[object] = []
    characters = 0
    async for item in _each(items):
        length = _length(item)
        if batch and (len(batch) >= batch_size or characters + length > _BATCH_CHARACTERS):
            yield start, batch
            start += len(batch)
            batch, characters = [], 0
        batch.append(item)
        characters += length
    if batch:
        yield start, batch


def _length(item: object) -> int:
    content = item if isinstance(item, str) else getattr(item, "content", None)
    if isinstance(item, dict):
        content = item.get("content")
    return len(content) if isinstance(content, str) else 0


async def _each(items: Iterable[object] | AsyncIterable[object]) -> AsyncIterator[object]:
    if isinstance(items, str | bytes | dict):
        raise InvalidTypeError("items", f"must be an iterable of memories, not one {kind_of(items)}")
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    if not isinstance(items, Iterable):
        raise InvalidTypeError("items", f"must be an iterable or an async iterable, not {kind_of(items)}")
    for number, item in enumerate(items, 1):
        yield item
        if number % 500 == 0:
            await asyncio.sleep(0)
