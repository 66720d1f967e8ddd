"""`export`: one snapshot of a namespace, streamed line by line."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._driver_errors import translated
from .._progress import tell
from .._validation import kind_of
from ..bulk_records import ExportResult
from ..errors import InvalidTypeError, UsageError
from .encoding import encode_rows
from .format import KINDS, Counts, Seal, header_line
from .reading import Stream
from .writing import Write, in_thread, opened_target

if TYPE_CHECKING:
    from asyncpg import Record

    from .._pooling import Connection
    from .._sql.compile import StatementBuilder

#: Rows fetched at a time: few enough that long contents do not fill the memory, enough to hide the round trip.
_ROWS = 100
#: Lines are gathered up to this before they are written.
_BYTES = 1 << 20

_ISOLATED = {"repeatable read", "serializable"}


async def export(
    context: Context,
    target: str | os.PathLike[str] | Stream,
    *,
    session_messages: bool,
    progress: Callable[[int, int | None], object] | None,
) -> ExportResult:
    """Count, then write header, sections and trailer; what is read while writing is the state at the count."""
    if not isinstance(session_messages, bool):
        raise InvalidTypeError("session_messages", f"must be a bool, not {kind_of(session_messages)}")
    async with _snapshot(context) as inside, opened_target(target) as write:
        counts = await _counts(inside, session_messages=session_messages)
        header = header_line(context.namespace, counts)
        await in_thread(write, header)
        seal = Seal(header)
        size = len(header)
        for kind, name in KINDS.items():
            if not getattr(counts, name):
                continue
            async for rows in _rows(inside, _reader_of(kind)):
                size += await in_thread(_write_rows, kind, rows, seal, write)
                await tell(progress, seal.counts.total, counts.total)
        trailer = seal.trailer()
        await in_thread(write, trailer)
    return ExportResult(
        memories=counts.memories,
        relations=counts.relations,
        messages=counts.messages,
        size=size + len(trailer),
        sha256=seal.digest,
    )


@asynccontextmanager
async def _snapshot(context: Context) -> AsyncIterator[Context]:
    """Give a context in which every statement sees the same state."""
    begun = context.connection is None or not context.connection.is_in_transaction()
    async with context.transaction(writes=False) as inside:
        connection = _connection(inside)
        with translated():
            if begun:
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            isolation = await connection.fetchval("SHOW transaction_isolation")
        if isolation not in _ISOLATED:
            raise UsageError(
                "an export reads one state of the namespace, and this transaction is READ COMMITTED: export outside "
                "of it, or begin it with REPEATABLE READ"
            )
        yield inside


def _connection(context: Context) -> Connection:
    assert context.connection is not None
    return context.connection


async def _counts(context: Context, *, session_messages: bool) -> Counts:
    from .._sql.transfer import count_lines

    (row,) = await context.fetch(count_lines, {"namespace": context.namespace})
    counts = Counts(row["memories"], row["supersedes"], row["relations"], row["messages"])
    return counts if session_messages else Counts(counts.memories, counts.supersedes, counts.relations)


def _reader_of(kind: str) -> StatementBuilder:
    from .._sql import transfer

    readers: Mapping[str, StatementBuilder] = {
        "memory": transfer.read_memories,
        "supersedes": transfer.read_supersedes,
        "relation": transfer.read_relations,
        "message": transfer.read_messages,
    }
    return readers[kind]


async def _rows(context: Context, builder: StatementBuilder) -> AsyncIterator[list[Record]]:
    """Yield the rows of a statement in pieces, read from a cursor on the server."""
    catalog = await context.database.opened()
    build = catalog.statement if context.principal is None else catalog.principals_statement
    statement = build(builder)
    values: dict[str, Any] = {"namespace": context.namespace}
    arguments = [values[name] for name in statement.parameters]
    with translated():
        cursor = await _connection(context).cursor(statement.sql, *arguments)
    while True:
        with translated():
            rows = await cursor.fetch(_ROWS)
        if not rows:
            return
        yield rows


def _write_rows(kind: str, rows: list[Record], seal: Seal, write: Write) -> int:
    lines = encode_rows(kind, rows)
    seal.add(kind, lines)
    data = b"".join(lines)
    write(data)
    return len(data)
