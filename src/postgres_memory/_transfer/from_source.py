"""`import_from`: what a reader finds goes the way of plain lines, under ids made of the keys it has in its source.

So that a second run, or one after an interruption, meets what is there, and stores what is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, cast, get_args

from .._context import Context
from .._progress import tell
from .._recall.reading import read_records
from .._validation import check_positive
from .._writing.add_many import add_many
from .._writing.adding import OnConflict
from .._writing.preparing import prepare
from .._writing.reading import size_of
from ..bulk_records import MAX_FAILURES, BulkFailure, BulkResult, SourceFailure, SourceResult
from ..errors import InvalidInputError, InvalidValueError
from ..records import MemoryPermissions
from .graph import Graph
from .opening import Asked, SourceKind, opened
from .plain import BATCH_BYTES, PlainLine, store_plain
from .sources.found import Bad, Edge, Found, Item, Skipped, text_at

#: What of a memory the caller may take from its metadata.
_FIELDS = ("owner", "session_id", "thread_id")

Report = Callable[[SourceFailure], object]


async def import_from(
    context: Context,
    kind: SourceKind,
    source: Any,
    asked: Asked,
    *,
    fields: Mapping[str, str],
    on_conflict: OnConflict,
    dry_run: bool,
    batch_size: int,
    progress: Callable[[int], object] | None,
    on_failure: Report | None,
) -> SourceResult:
    """Read a source and store it, batch by batch."""
    if on_conflict not in get_args(OnConflict):
        raise InvalidValueError("on_conflict", "must be 'error', 'ignore' or 'update'")
    unknown = sorted(fields.keys() - set(_FIELDS))
    if unknown:
        raise InvalidValueError("fields", f"may name {', '.join(_FIELDS)}, not {unknown[0][:40]!r}")
    most = min(check_positive(batch_size, "batch_size"), MAX_FAILURES)
    context.refuse_principal("import_from()")
    storing = _Storing(context, kind, on_conflict, dry_run=dry_run, on_failure=on_failure)
    reading = opened(context, kind, source, asked)
    await context.ready()
    async with aclosing(cast("Any", reading)):
        async for batch in _batches(reading, most):
            await storing.store([_placed(found, fields) for found in batch])
            await tell(progress, storing.read)
    return storing.result()


async def _batches(reading: AsyncIterator[Found], most: int) -> AsyncIterator[list[Found]]:
    """Yield what is found in lists of a bounded number and size; relations are in lists without memories."""
    batch: list[Found] = []
    size = 0
    async for found in reading:
        is_edge = isinstance(found, Edge)
        if batch and (len(batch) >= most or size >= BATCH_BYTES or is_edge != isinstance(batch[-1], Edge)):
            yield batch
            batch, size = [], 0
        batch.append(found)
        size += size_of(found.values) if isinstance(found, Item) else 0
    if batch:
        yield batch


def _placed(found: Found, fields: Mapping[str, str]) -> Found:
    """Return a memory with the fields that are to come from its metadata, or say which is not there."""
    if not isinstance(found, Item) or not fields:
        return found
    values = dict(found.values)
    for name, path in fields.items():
        text = text_at(values["metadata"], path)
        if not text:
            return Bad(found.place, f"the metadata has no text in {path[:40]!r} for {name}")
        try:
            values |= {"permissions": MemoryPermissions(text)} if name == "owner" else {name: text}
        except InvalidInputError as error:
            return Bad(found.place, str(error))
    return Item(found.place, values)


class _Storing:
    """What became of what was read so far."""

    def __init__(
        self,
        context: Context,
        kind: SourceKind,
        on_conflict: OnConflict,
        *,
        dry_run: bool,
        on_failure: Report | None,
    ) -> None:
        self.read = 0
        self._stored = self._ignored = self._relations = self._relations_ignored = self._failures = 0
        self._skipped: Counter[str] = Counter()
        self._failed: list[SourceFailure] = []
        self._on_failure = on_failure
        self._graph = Graph(context, dry_run=dry_run) if kind == "mcp-json" else None
        self._load: Callable[..., Awaitable[BulkResult]] = (
            partial(_tried, context, on_conflict)
            if dry_run
            else partial(add_many, context, on_conflict=on_conflict, dedupe=None, progress=None)
        )

    async def store(self, batch: Sequence[Found]) -> None:
        """Store a batch, and count and report what of it is not."""
        items = [found for found in batch if isinstance(found, Item)]
        edges = [found for found in batch if isinstance(found, Edge)]
        bad = [found for found in batch if isinstance(found, Bad)]
        self._skipped.update(found.reason for found in batch if isinstance(found, Skipped))
        if items:
            bad += await self._store_items(items)
        if edges:
            assert self._graph is not None
            new, there, refused = await self._graph.relate(edges)
            self._relations += new
            self._relations_ignored += there
            bad += refused
        for one in bad:
            await self._fail(SourceFailure(one.place, one.reason))
        self.read += len(batch)

    async def _store_items(self, items: list[Item]) -> list[Bad]:
        restored = await self._graph.restore(items) if self._graph is not None else set[int]()
        lines = [PlainLine(at, 0, item.values) for at, item in enumerate(items) if at not in restored]
        stored, bad = await store_plain(self._load, lines)
        self._stored += stored + len(restored)
        self._ignored += len(lines) - stored - len(bad)
        return [Bad(items[line.number].place, line.problem) for line in bad]

    async def _fail(self, failure: SourceFailure) -> None:
        self._failures += 1
        if len(self._failed) < MAX_FAILURES:
            self._failed.append(failure)
        if self._on_failure is not None:
            self._on_failure(failure)

    def result(self) -> SourceResult:
        return SourceResult(
            read=self.read,
            stored=self._stored,
            ignored=self._ignored,
            relations=self._relations,
            relations_ignored=self._relations_ignored,
            skipped=dict(sorted(self._skipped.items())),
            failed=tuple(self._failed),
            failures=self._failures,
        )


async def _tried(
    context: Context, on_conflict: OnConflict, items: list[dict[str, Any]], *, batch_size: int
) -> BulkResult:
    """Return what `add_many` would, without storing anything."""
    batch = await asyncio.to_thread(prepare, context, 0, list(items), deduped=False)
    whole = (0, len(items))
    failures = batch.failures
    if not failures:
        found = await read_records(context, [item["id"] for item in items])
        there = [at for at, record in enumerate(found) if record is not None]
        if on_conflict != "error":
            ignored = len(there) if on_conflict == "ignore" else 0
            return BulkResult(stored=len(items) - ignored, ignored=ignored)
        failures = [(at, "id: there is such a memory already") for at in there]
        if not failures:
            return BulkResult(stored=len(items))
    failed = tuple(BulkFailure(at, reason, whole) for at, reason in failures)
    return BulkResult(not_stored=len(items), failed=failed, failures=len(failed))
