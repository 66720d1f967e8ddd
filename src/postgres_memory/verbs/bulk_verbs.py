"""Verbs that move many memories: bulk loading, export, import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._transfer.export import export
from .._transfer.import_ import import_
from .._writing.add_many import add_many
from .._writing.adding import Dedupe, OnConflict

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable
    from os import PathLike

    from .._context import Context
    from .._pooling import Connection
    from .._transfer.reading import Stream
    from ..bulk_records import BulkResult, ExportResult, ImportResult
    from ..records import MemoryRecord


class BulkVerbs:
    """`add_many`, `export`, `import_`."""

    _context: Context

    async def add_many(
        self,
        items: Iterable[str | dict[str, Any] | MemoryRecord]
        | AsyncIterable[str | dict[str, Any] | MemoryRecord],
        *,
        batch_size: int = 5000,
        on_conflict: OnConflict = "error",
        dedupe: Dedupe | None = None,
        progress: Callable[[int], object] | None = None,
        connection: Connection | None = None,
    ) -> BulkResult:
        """Store many memories, in the order given, and say what became of them.

        An item is a content, a dict of a content and `add`'s keywords for a memory (``derived_from`` among them), or a
        record. The input is read in batches of ``batch_size`` items (fewer where they take more than 8 MiB), embedded
        beside the event loop and written by COPY, so that an input of any length runs in constant space. Outside of a
        transaction of the caller's, two batches may be under way on two connections; they commit in their order. A
        batch is one transaction: if one of its items cannot be stored, none of it is, the result says which items and
        why (of the first 1,000), and the following batches go on. Relations may lead to any memory of the same batch.

        ``on_conflict`` and ``dedupe`` mean what they mean in `add`, item by item: an id that is there decides first,
        then a content that is held, by an older memory or by one of the batch. Items ignored are counted. A relation to
        an item ignored for its content leads to the memory that holds it; an update to a content that another memory
        holds is a failure. Of one id given twice in a batch the first counts, with ``"update"`` the last; with
        ``"error"`` it is a failure. ``progress`` is called with the number of items handled so far, and awaited if it
        is a coroutine function.

        With an embedder, a batch is embedded before a connection is taken for it, while the one before is written. If
        that fails, its memories wait for `embed_pending`; what the embedder returns but cannot be stored raises
        InvalidEmbeddingError.

        Raises InvalidTypeError or InvalidValueError for bad arguments, what the input raises, and a DatabaseError if
        the database fails: whole batches read before that are stored, the one being filled is not.
        """
        return await add_many(
            self._context.on(connection),
            items,
            batch_size=batch_size,
            on_conflict=on_conflict,
            dedupe=dedupe,
            progress=progress,
        )

    async def export(
        self,
        target: str | PathLike[str] | Stream,
        *,
        session_messages: bool = True,
        progress: Callable[[int, int | None], object] | None = None,
        connection: Connection | None = None,
    ) -> ExportResult:
        """Write the whole namespace to a path, or to a file open to write, as JSON Lines that `import_` reads.

        Every memory is written, whatever its status, with all its fields, its relations and, unless
        ``session_messages`` is False, the messages of the namespace's sessions; embeddings are not, since they are
        recomputed. It is one consistent snapshot, read in constant memory while others go on writing; an unchanged
        namespace gives the same bytes again. A path gets its file only when that is whole: until then it has another
        name beside it. ``progress`` is called with the number of lines written and how many there will be.

        Returns what was written. Raises UsageError in a transaction that is READ COMMITTED, where there is no one
        snapshot; OSError if the file cannot be written; a DatabaseError if the database fails.
        """
        return await export(
            self._context.on(connection), target, session_messages=session_messages, progress=progress
        )

    async def import_(
        self,
        source: str | PathLike[str] | Stream,
        *,
        on_conflict: OnConflict = "error",
        batch_size: int = 1000,
        progress: Callable[[int, int | None], object] | None = None,
        connection: Connection | None = None,
    ) -> ImportResult:
        """Store what a path, or a file open to read, holds: an export, or plain lines. The first line decides.

        An export is taken whole or, if anything is wrong, not at all: a file is read through and proved complete before
        the transaction begins; a pipe is proved within it. The namespace becomes this object's. In an empty one it
        gives a namespace equal to the exported one: order, versions, times and counters too. Where a memory with its id
        or its deduped content is there, ``on_conflict`` decides: ``"error"`` stores nothing; ``"ignore"`` leaves the
        memory and its relations as they are; ``"update"`` gives the memory with that id every field of the file, a new
        version and time of update. A session that has messages is a conflict as well: it is left, or replaced.

        An export holds no embeddings, and its memories are not embedded here, in the one transaction they come in: with
        an embedder, call `embed_pending` afterwards.

        Without the header of an export, each line is an object of ``content`` and, if wanted, ``metadata``. Good lines
        are stored in order, ``batch_size`` to a transaction (1,000 at most); the others are in the result, by number.

        ``progress`` is called with the number of lines handled, and how many there are, None where that is not known;
        it may be async.
        Raises InvalidValueError with the number of the line for an export that is truncated, altered or of a newer
        format; ConflictError; NotFoundError for a relation whose end is missing; OSError if the file cannot be read.
        """
        return await import_(
            self._context.on(connection),
            source,
            on_conflict=on_conflict,
            batch_size=batch_size,
            progress=progress,
        )
