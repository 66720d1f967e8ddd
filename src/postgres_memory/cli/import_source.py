"""``postgres-memory import --from``: what another system keeps, as tables or as a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from postgres_memory._counted import counted
from postgres_memory.errors import InvalidValueError

from .output import complain, print_json, progress
from .running import PROBLEM, reported, session

if TYPE_CHECKING:
    from postgres_memory._writing.adding import OnConflict
    from postgres_memory.bulk_records import SourceFailure, SourceResult

    from .options import Target


class Kind(StrEnum):
    """What other systems are read."""

    MEM0 = "mem0"
    LANGGRAPH = "langgraph"
    PGMEMORY = "pgmemory"
    MCP_JSON = "mcp-json"
    CHATGPT_EXPORT = "chatgpt-export"


_FILES = (Kind.MCP_JSON, Kind.CHATGPT_EXPORT)
_PANEL = "From another system"

From = Annotated[
    Kind | None,
    typer.Option(
        "--from",
        metavar="SYSTEM",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Read what another system keeps, not JSON Lines: mem0, langgraph, pgmemory, mcp-json or chatgpt-export.",
    ),
]
SourceDsn = Annotated[
    str | None,
    typer.Option(
        "--source-dsn",
        metavar="URL",
        envvar="POSTGRES_MEMORY_SOURCE_DSN",
        show_default=False,
        show_envvar=True,
        rich_help_panel=_PANEL,
        help="The database of the tables; without it, the one that is imported into.",
    ),
]
SourceTable = Annotated[
    str | None,
    typer.Option(
        show_default=False,
        rich_help_panel=_PANEL,
        help="The table, if it is not mem0, store (langgraph) or memory (pgmemory).",
    ),
]
SourceSchema = Annotated[str, typer.Option(rich_help_panel=_PANEL, help="The schema of the table.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Rows with this value only, as user_id=alice or prefix=memories.alice; may be given again.",
    ),
]
Field = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Take owner, session_id or thread_id from the metadata, as owner=user_id; may be given again.",
    ),
]
ContentField = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Where langgraph's values have the text.",
    ),
]
IdPrefix = Annotated[
    str | None,
    typer.Option(
        show_default=False,
        rich_help_panel=_PANEL,
        help="What ids begin with: one of its own for each source, where their keys may be the same.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", rich_help_panel=_PANEL, help="Read and check all, and store nothing.")
]


@dataclass(frozen=True, slots=True)
class Table:
    """What the options say of tables."""

    dsn: str | None = field(repr=False)
    name: str | None
    schema: str
    only: list[str]


@dataclass(frozen=True, slots=True)
class Source:
    """What the options say of a source; of JSON Lines it has no kind."""

    kind: Kind | None
    file: str | None
    table: Table
    fields: list[str]
    content_field: str | None
    id_prefix: str | None
    dry_run: bool

    def plain_file(self) -> str:
        """Return the file of JSON Lines. Raises where there is none, or options are given that go with --from."""
        given = {
            "--source-table": self.table.name,
            "--only": self.table.only,
            "--field": self.fields,
            "--content-field": self.content_field,
            "--id-prefix": self.id_prefix,
            "--dry-run": self.dry_run,
        }
        for option, value in given.items():
            if value:
                raise InvalidValueError(option, "goes with --from")
        return self._file("JSON Lines are read from a file, or - for standard input")

    def place(self) -> str | None:
        """Return the file or the DSN, whichever the kind has."""
        if self.kind in _FILES:
            file = self._file(f"{self.kind} is read from a file")
            if file == "-":
                raise InvalidValueError("FILE", f"is standard input, and {self.kind} is read from a file")
            return file
        if self.file is not None:
            raise InvalidValueError("FILE", f"is not for {self.kind}: its tables are in --source-dsn")
        return self.table.dsn

    def _file(self, why: str) -> str:
        if self.file is None:
            raise InvalidValueError("FILE", f"is missing: {why}")
        return self.file


def import_source(target: Target, source: Source, on_conflict: OnConflict, *, as_json: bool = False) -> None:
    """Import a source, name on stderr what is bad, and print what became of it."""
    read = 0

    def state() -> str:
        if not read:
            return "stopped in the first batch or before it"
        return f"stopped after {read} read: the same command goes on, and stores nothing twice"

    def name(failure: SourceFailure) -> None:
        complain(f"{failure.place}: {failure.reason}")

    assert source.kind is not None
    with reported(target):
        place, fields = source.place(), _pairs("--field", source.fields)
        only = _pairs("--only", source.table.only)
    with session(target, state=state) as at, progress("importing") as show:

        def count(done: int) -> None:
            nonlocal read
            read = done
            show(done, None)

        try:
            result = at.run(
                at.memory.import_from(
                    source.kind.value,
                    place,
                    table=source.table.name,
                    source_schema=source.table.schema,
                    only=only,
                    content_field=source.content_field,
                    fields=fields,
                    id_prefix=source.id_prefix,
                    on_conflict=on_conflict,
                    dry_run=source.dry_run,
                    progress=count,
                    on_failure=name,
                )
            )
        except OSError as error:
            raise InvalidValueError("FILE", f"{source.file}: {error.strerror}") from error
    _print(result, dry_run=source.dry_run, as_json=as_json)
    if result.failures:
        raise typer.Exit(PROBLEM)


def _pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name or name in pairs:
            raise InvalidValueError(option, "must be NAME=VALUE, each name once")
        pairs[name] = value
    return pairs


def _print(result: SourceResult, *, dry_run: bool, as_json: bool) -> None:
    skipped = sum(result.skipped.values())
    if as_json:
        names = ("read", "stored", "ignored", "relations", "relations_ignored", "failures")
        counts = {name: getattr(result, name) for name in names}
        print_json(counts | {"skipped": dict(result.skipped), "dry_run": dry_run})
        return
    numbers = [f"{result.stored} {'to store' if dry_run else 'stored'}", f"{result.ignored} there already"]
    if result.relations or result.relations_ignored:
        numbers.append(f"{counted(result.relations, 'relation')}, {result.relations_ignored} there already")
    typer.echo(f"{result.read} read: {', '.join(numbers)}, {skipped} skipped, {result.failures} bad")
    for reason, count in result.skipped.items():
        typer.echo(f"  {count} skipped: {reason}")
