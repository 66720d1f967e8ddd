"""`import_`: the header line decides whether a file is an export, all of which is taken or nothing, or plain lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

from .._context import Context
from .._progress import tell
from .._validation import check_positive
from .._waiting import finished
from .._writing.add_many import add_many
from ..bulk_records import MAX_FAILURES, ImportFailure, ImportResult
from ..errors import InvalidValueError
from .batches import read_batches
from .loading import Loader, OnConflict
from .plain import read_plain, store_plain
from .reading import Export, Lines, Stream, check_whole, is_export

T = TypeVar("T")

Progress = Callable[[int, int | None], object]


async def import_(
    context: Context,
    source: str | os.PathLike[str] | Stream,
    *,
    on_conflict: OnConflict,
    batch_size: int,
    progress: Progress | None,
) -> ImportResult:
    """Look at the first line and read the source as what it is."""
    if on_conflict not in get_args(OnConflict):
        raise InvalidValueError("on_conflict", "must be 'error', 'ignore' or 'update'")
    check_positive(batch_size, "batch_size")
    await context.ready()
    async with _opened(source) as lines:
        if await asyncio.to_thread(is_export, lines):
            # Its memories have ids and owners of their own.
            context.refuse_principal("import_() of an export")
            return await _import_export(context, lines, on_conflict, batch_size, progress)
        return await _import_plain(context, lines, batch_size, progress)


@asynccontextmanager
async def _opened(source: str | os.PathLike[str] | Stream) -> AsyncIterator[Lines]:
    """Give the lines of ``source``; what is opened here is closed here."""
    if isinstance(source, str | os.PathLike):
        stream = await asyncio.to_thread(Path(source).open, "rb")
        try:
            yield Lines(stream)
        finally:
            stream.close()
        return
    lines = Lines(source)
    try:
        yield lines
    finally:
        lines.let_go()


async def _import_export(
    context: Context, lines: Lines, on_conflict: OnConflict, batch_size: int, progress: Progress | None
) -> ImportResult:
    """Prove a file whole before a transaction begins; what can be read once proves itself within it."""
    if lines.seekable:
        async for _ in _in_thread(check_whole(await asyncio.to_thread(Export, lines))):
            pass
        await asyncio.to_thread(lines.rewind)
    export = await asyncio.to_thread(Export, lines)
    batches = read_batches(
        export,
        batch_size=batch_size,
        content_bytes=context.limits.content_bytes,
        last_counts=on_conflict == "update",
    )
    async with context.transaction() as inside:
        loader = Loader(inside, on_conflict)
        writing: asyncio.Task[None] | None = None
        try:
            # The next batch is read while one is written.
            async for batch in _in_thread(batches):
                if writing is not None:
                    await _written(writing, loader, export, progress)
                writing = asyncio.create_task(loader.load(batch))
            if writing is not None:
                await _written(writing, loader, export, progress)
        finally:
            if writing is not None:
                writing.cancel()
                await finished([writing])  # what is raised already is what counts
    return loader.result


async def _written(
    writing: asyncio.Task[None], loader: Loader, export: Export, progress: Progress | None
) -> None:
    await writing
    await tell(progress, loader.done, export.announced.total)


async def _import_plain(
    context: Context, lines: Lines, batch_size: int, progress: Progress | None
) -> ImportResult:
    load = partial(add_many, context, on_conflict="error", dedupe=None, progress=None)
    stored = failures = 0
    failed: list[ImportFailure] = []
    async for batch in _in_thread(read_plain(lines, batch_size)):
        count, bad = await store_plain(load, batch)
        stored += count
        failures += len(bad)
        failed += [ImportFailure(line.number, line.problem) for line in bad[: MAX_FAILURES - len(failed)]]
        await tell(progress, stored + failures, None)
    return ImportResult(stored=stored, failed=tuple(failed), failures=failures)


async def _in_thread(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield what ``items`` yields, made beside the event loop."""

    def step() -> T | None:
        return next(items, None)

    while (item := await asyncio.to_thread(step)) is not None:
        yield item
