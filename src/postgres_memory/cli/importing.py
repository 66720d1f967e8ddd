"""``postgres-memory import``: JSON Lines into a namespace, in file order, one commit per batch."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader, RawIOBase, UnsupportedOperation
from os import fstat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from postgres_memory._counted import counted
from postgres_memory._transfer.format import begins_export
from postgres_memory._transfer.plain import BadLine, PlainLine, read_plain, store_plain
from postgres_memory._transfer.reading import Lines
from postgres_memory.errors import InvalidValueError

from . import import_source as sources
from . import options
from .output import complain, print_json, progress
from .running import PROBLEM, Session, reported, session, to_its_end
from .standard_input import StandardInput

if TYPE_CHECKING:
    from postgres_memory.bulk_records import ImportResult
    from postgres_memory.postgres import PostgresMemory

#: Lines to a transaction.
BATCH_LINES = 500

#: Bytes looked at to tell an export from plain lines.
_START = 64


class OnConflict(StrEnum):
    """What becomes of memories of an export whose ids are there already."""

    ERROR = "error"
    IGNORE = "ignore"
    UPDATE = "update"


@dataclass(slots=True)
class Tally:
    """How far an import is: what is committed, and what was refused."""

    stored: int = 0
    bad: int = 0
    last_line: int = 0

    def __str__(self) -> str:
        return f"{self.stored} stored, {self.bad} bad"


def import_(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="JSON Lines; - reads standard input. Not for tables of --from.",
        ),
    ] = None,
    *,
    on_conflict: Annotated[
        OnConflict | None,
        typer.Option(
            show_default=False,
            help="What becomes of memories whose ids are there already; of an export error, with --from ignore if not "
            "said.",
        ),
    ] = None,
    from_: sources.From = None,
    source_dsn: sources.SourceDsn = None,
    source_table: sources.SourceTable = None,
    source_schema: sources.SourceSchema = "public",
    only: sources.Only = None,
    field: sources.Field = None,
    content_field: sources.ContentField = None,
    id_prefix: sources.IdPrefix = None,
    dry_run: sources.DryRun = False,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Store every line of a file: an object with content (a string) and, if wanted, metadata (an object).

    Lines are stored in order, 500 to a transaction. A line that cannot be a memory is reported by its number and
    left out; blank lines are skipped. The exit status is 1 if any line was bad.

    What the command export wrote is recognised by its first line, and taken whole or not at all.

    With --from, tables of mem0, langgraph and pgmemory are read, the file of the reference MCP memory server, or a data
    export of ChatGPT. Run again, also after an interruption, it stores what is missing.
    """
    target = options.Target(dsn, namespace, schema, debug)
    table = sources.Table(source_dsn, source_table, source_schema, only or [])
    source = sources.Source(from_, file, table, field or [], content_field, id_prefix, dry_run)
    if from_ is not None:
        sources.import_source(target, source, (on_conflict or OnConflict.IGNORE).value, as_json=as_json)
    else:
        _import_file(target, source, on_conflict or OnConflict.ERROR, as_json=as_json)


def _import_file(
    target: options.Target, source: sources.Source, on_conflict: OnConflict, *, as_json: bool
) -> None:
    tally = Tally()

    def state() -> str:
        return f"stopped after line {tally.last_line}: {tally}"

    with reported(target), _opened(source.plain_file()) as stream:
        if begins_export(_start(stream)):
            with session(target) as at, progress("importing") as show, _left(stream):
                whole = at.run(at.memory.import_(stream, on_conflict=on_conflict.value, progress=show))
            _print_whole(whole, as_json=as_json)
            return
        with session(target, state=state) as at:
            import_lines(at, stream, tally)
    if as_json:
        print_json({"stored": tally.stored, "bad": tally.bad})
    else:
        typer.echo(str(tally))
    if tally.bad:
        raise typer.Exit(PROBLEM)


def _print_whole(result: ImportResult, *, as_json: bool) -> None:
    if as_json:
        names = ("stored", "ignored", "relations", "relations_ignored", "messages", "messages_ignored")
        print_json({name: getattr(result, name) for name in names})
    else:
        typer.echo(
            f"{result.stored} stored, {result.ignored} ignored, "
            f"{counted(result.relations, 'relation')}, {counted(result.messages, 'message')}"
        )


def import_lines(at: Session, stream: IO[bytes], tally: Tally) -> None:
    """Store the lines of ``stream`` and keep ``tally`` true to what is committed, however this ends.

    Reading happens between runs of the event loop, so that Ctrl-C ends it at once also where it waits for input.
    """
    total = _size(stream)
    at.run(at.memory.open())
    with progress("importing", total, unit="bytes") as show:
        for batch in read_plain(Lines(stream), BATCH_LINES):
            at.run(to_its_end(_store_batch(at.memory, batch, tally)))
            show(batch[-1].end, total)


async def _store_batch(memory: PostgresMemory, batch: list[PlainLine | BadLine], tally: Tally) -> None:
    stored, bad = await store_plain(memory.add_many, batch)
    for line in bad:
        complain(f"line {line.number}: {line.problem}")
    tally.stored += stored
    tally.bad += len(bad)
    tally.last_line = batch[-1].number


@contextmanager
def _opened(file: str) -> Iterator[BufferedReader]:
    if file == "-":
        # The same bytes, under a class that can look ahead, whatever stands in for the standard input.
        standard: IO[bytes] = sys.stdin.buffer
        try:
            raw: RawIOBase = StandardInput(standard.fileno())
        except UnsupportedOperation:
            raw = cast(RawIOBase, standard)
        yield BufferedReader(raw)
        return
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise InvalidValueError("FILE", f"{file}: {error.strerror}") from error
        yield stream


def _start(stream: BufferedReader) -> bytes:
    """Return the first bytes of a stream, which are read again; a pipe may give them in several pieces."""
    if isinstance(stream.raw, StandardInput):
        return stream.raw.begin(_START)
    return stream.peek(_START)[:_START]


@contextmanager
def _left(stream: BufferedReader) -> Iterator[None]:
    """End the reading of a stream, also where it waits, when the body ends."""
    try:
        yield
    finally:
        if isinstance(stream.raw, StandardInput):
            stream.raw.stop()


def _size(stream: IO[bytes]) -> int | None:
    """Return the size of a file, in bytes; a pipe has none."""
    try:
        status = fstat(stream.fileno())
    except (OSError, AttributeError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
