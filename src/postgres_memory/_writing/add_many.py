"""`add_many`: any stream of memories, in batches, each one transaction; the next is prepared while one is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass, field
from typing import get_args

from .._context import Context
from .._progress import tell
from .._validation import check_positive
from ..bulk_records import MAX_FAILURES, BulkFailure, BulkResult
from ..errors import InvalidValueError
from .adding import Dedupe, OnConflict
from .batches import store_batch
from .deciding import BatchRefusedError
from .preparing import Batch, prepare
from .reading import read_batches


@dataclass(slots=True)
class _Tally:
    stored: int = 0
    ignored: int = 0
    not_stored: int = 0
    failures: int = 0
    failed: list[BulkFailure] = field(default_factory=list)

    def refuse(self, batch: Batch, failures: list[tuple[int, str]]) -> None:
        """Count a batch that was not stored, and keep its failures while there is room."""
        whole = (batch.start, batch.start + batch.size)
        self.not_stored += batch.size
        self.failures += len(failures)
        for position, reason in failures[: MAX_FAILURES - len(self.failed)]:
            self.failed.append(BulkFailure(batch.start + position, reason, whole))

    def refuse_whole(self, batch: Batch, reason: str) -> None:
        """Count a batch that was not stored where nobody knows which item is to blame."""
        self.not_stored += batch.size
        self.failures += 1
        if len(self.failed) < MAX_FAILURES:
            self.failed.append(BulkFailure(None, reason, (batch.start, batch.start + batch.size)))

    def result(self) -> BulkResult:
        return BulkResult(self.stored, self.ignored, self.not_stored, tuple(self.failed), self.failures)


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
        async for start, given in read_batches(items, batch_size):
            batch = await asyncio.to_thread(prepare, context, start, given, deduped=dedupe is not None)
            if writing is not None:
                await writing
            writing = asyncio.create_task(_write(context, batch, on_conflict, tally, progress))
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
    tally: _Tally,
    progress: Callable[[int], object] | None,
) -> None:
    if batch.failures:
        tally.refuse(batch, batch.failures)
    else:
        try:
            stored = await store_batch(context, batch, on_conflict)
        except BatchRefusedError as refusal:
            if refusal.failures:
                tally.refuse(batch, refusal.failures)
            else:
                tally.refuse_whole(batch, str(refusal))
        else:
            tally.stored += stored
            tally.ignored += batch.size - stored
    await tell(progress, batch.start + batch.size)
