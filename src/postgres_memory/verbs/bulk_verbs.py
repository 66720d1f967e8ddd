"""Verbs that move many memories: bulk loading, export, import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping
    from os import PathLike

    from .._context import Context
    from .._pooling import Connection
    from .._transfer.opening import SourceKind
    from .._transfer.reading import Stream
    from .._writing.adding import Dedupe, OnConflict
    from ..bulk_records import BulkResult, ExportResult, ImportResult, SourceFailure, SourceResult
    from ..records import MemoryRecord


class BulkVerbs:
    """`add_many`, `export`, `import_`, `import_from`."""

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
        from .._writing.add_many import add_many

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
        from .._transfer.export import export

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
        from .._transfer.import_ import import_

        return await import_(
            self._context.on(connection),
            source,
            on_conflict=on_conflict,
            batch_size=batch_size,
            progress=progress,
        )

    async def import_from(
        self,
        kind: SourceKind,
        source: str | PathLike[str] | None = None,
        *,
        table: str | None = None,
        source_schema: str = "public",
        only: Mapping[str, str] | None = None,
        content_field: str | None = None,
        fields: Mapping[str, str] | None = None,
        id_prefix: str | None = None,
        on_conflict: OnConflict = "ignore",
        dry_run: bool = False,
        batch_size: int = 500,
        progress: Callable[[int], object] | None = None,
        on_failure: Callable[[SourceFailure], object] | None = None,
    ) -> SourceResult:
        """Store what another system keeps: ``"mem0"``, ``"langgraph"``, ``"pgmemory"``: tables; ``"mcp-json"``: the
        file of the reference MCP memory server; ``"chatgpt-export"``: the zip of a data export.

        ``source`` is the path of a file; for tables the DSN of their database, None for this one, where it takes a
        connection of the pool. It is read as one snapshot, in bounded memory, and never written. How each becomes
        memories is in docs/howto/move-from-*.md. Ids are made of the keys of the source, so that a second run, also one
        after an interruption, stores what is missing: what is there is ``"ignore"``d, an ``"update"``, or an
        ``"error"``, as ``on_conflict`` says. With ``dry_run`` all is read and checked, and nothing stored.

        ``table`` and ``source_schema`` name the table where it is not the one the system makes by itself; ``only``
        chooses rows, as ``{"user_id": "alice"}``. ``content_field`` is the dotted path of the text in a value of
        LangGraph's. ``fields`` takes ``owner``, ``session_id`` or ``thread_id`` of each memory from a dotted path in
        its metadata, as ``{"owner": "user_id"}``. ``id_prefix`` comes before the ids of the source: give each one of
        its own to tables of one name out of several databases.

        Good ones are stored ``batch_size`` to a transaction (1,000 at most); what cannot be a memory is in the result,
        by its place, and given to ``on_failure``. ``progress`` is called with the number of things read.

        Raises InvalidTypeError or InvalidValueError for bad arguments, a table that is not there, a file of another
        format; UsageError for a principal; OSError if the file cannot be read; a DatabaseError if a database fails.
        """
        from .._transfer.from_source import import_from
        from .._transfer.opening import Asked

        return await import_from(
            self._context,
            kind,
            source,
            Asked(table, source_schema, only or {}, content_field, id_prefix),
            fields=fields or {},
            on_conflict=on_conflict,
            dry_run=dry_run,
            batch_size=batch_size,
            progress=progress,
            on_failure=on_failure,
        )
