"""`add_many`: any stream of memories, in batches, each one transaction; the next is prepared while one is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass, field
from typing import get_args

from .._context import Context
from .._driver_errors import after_writing
from .._progress import tell
from .._validation import check_positive
from .._waiting import finished
from ..bulk_records import MAX_FAILURES, BulkFailure, BulkResult
from ..errors import InvalidValueError
from .adding import Dedupe, OnConflict
from .batches import over, store_batch, take_numbers
from .deciding import BatchRefusedError
from .embedding import embed_batch
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
    loading = _Loading(context, on_conflict, progress)
    try:
        async for start, given in read_batches(items, batch_size):
            batch = await asyncio.to_thread(prepare, context, start, given, deduped=dedupe is not None)
            await embed_batch(context, batch)
            await loading.write(batch)
        await loading.end()
    except Exception as error:
        # The input failed. A batch that was read whole before that is stored; cancelling it would leave that to chance.
        await loading.settle()
        with after_writing(loading.tally.stored > 0):
            raise error
    finally:
        loading.cancel()
        await loading.settle()
    return loading.tally.result()


class _Loading:
    """The batches under way: one, or two on connections of their own where they cannot be in each other's way.

    Two keep the server busy while one of them waits for the disk. They commit in their order.
    """

    def __init__(
        self, context: Context, on_conflict: OnConflict, progress: Callable[[int], object] | None
    ) -> None:
        self.tally = _Tally()
        self._context = context
        self._on_conflict = on_conflict
        self._progress = progress
        self._under_way: deque[asyncio.Task[None]] = deque()
        self._most = 2 if context.connection is None and context.scope is None else 1
        self._last_meets_nothing = False

    async def write(self, batch: Batch) -> None:
        """Begin to write a batch, once there is room."""
        together = batch.meets_nothing and self._last_meets_nothing
        while len(self._under_way) >= (self._most if together else 1):
            await self._under_way.popleft()
        if batch.meets_nothing and self._most > 1 and not batch.failures:
            await take_numbers(self._context, batch)  # here, in the order of the input
        before = self._under_way[-1] if self._under_way else None
        self._under_way.append(asyncio.create_task(self._write(batch, before)))
        self._last_meets_nothing = batch.meets_nothing

    async def end(self) -> None:
        """Wait until all is written. Raises what went wrong."""
        while self._under_way:
            await self._under_way.popleft()

    def cancel(self) -> None:
        """Stop what is under way."""
        for task in self._under_way:
            task.cancel()

    async def settle(self) -> None:
        """Wait until nothing is under way. What is raised already is what the caller learns."""
        await finished(self._under_way)
        self._under_way.clear()

    async def _write(self, batch: Batch, before: asyncio.Task[None] | None) -> None:
        if batch.failures:
            if before is not None:
                await over(before)
            self.tally.refuse(batch, batch.failures)
        else:
            await self._store(batch, before)
        await tell(self._progress, batch.start + batch.size)

    async def _store(self, batch: Batch, before: asyncio.Task[None] | None) -> None:
        try:
            stored = await store_batch(self._context, batch, self._on_conflict, before)
        except BatchRefusedError as refusal:
            if refusal.failures:
                self.tally.refuse(batch, refusal.failures)
            else:
                self.tally.refuse_whole(batch, str(refusal))
        else:
            self.tally.stored += stored
            self.tally.ignored += batch.size - stored
