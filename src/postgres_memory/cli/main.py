"""The entry point: which commands there are."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from postgres_memory._version import __version__

from .archive import archive
from .count import count
from .create_index import create_index
from .delete import delete
from .demo import demo
from .drop_index import drop_index
from .drop_space import drop_space
from .embed_pending import embed_pending
from .erase import erase
from .export import export
from .find import find
from .get import get
from .graph import graph
from .history import history
from .importing import import_
from .migrate import migrate
from .purge import purge
from .recall import recall
from .reembed import reembed
from .relate import relate
from .related import related
from .restore import restore
from .search import search
from .spaces import spaces
from .store import store
from .supersede import supersede
from .switch_space import switch_space
from .unrelate import unrelate
from .update import update
from .verify import verify

EXIT_STATUS = (
    "Exit status: 0 done; 1 the database or the data has a problem (also: no such memory, bad lines in an import, "
    "embeddings that differ), or a person said no; 2 the arguments, the input or the configuration are wrong; 130 "
    "interrupted."
)

app = typer.Typer(
    name="postgres-memory",
    help="Memory for production agents on PostgreSQL and pgvector.",
    epilog=EXIT_STATUS,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    # Its tracebacks show local variables, and those hold passwords.
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"postgres-memory {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Memory for production agents on PostgreSQL and pgvector."""


app.command("migrate", epilog=EXIT_STATUS)(migrate)
app.command("store", epilog=EXIT_STATUS)(store)
app.command("search", epilog=EXIT_STATUS)(search)
app.command("recall", epilog=EXIT_STATUS)(recall)
app.command("get", epilog=EXIT_STATUS)(get)
app.command("find", epilog=EXIT_STATUS)(find)
app.command("count", epilog=EXIT_STATUS)(count)
app.command("update", epilog=EXIT_STATUS)(update)
app.command("delete", epilog=EXIT_STATUS)(delete)
app.command("relate", epilog=EXIT_STATUS)(relate)
app.command("unrelate", epilog=EXIT_STATUS)(unrelate)
app.command("related", epilog=EXIT_STATUS)(related)
app.command("graph", epilog=EXIT_STATUS)(graph)
app.command("supersede", epilog=EXIT_STATUS)(supersede)
app.command("restore", epilog=EXIT_STATUS)(restore)
app.command("archive", epilog=EXIT_STATUS)(archive)
app.command("history", epilog=EXIT_STATUS)(history)
app.command("import", epilog=EXIT_STATUS)(import_)
app.command("export", epilog=EXIT_STATUS)(export)
app.command("spaces", epilog=EXIT_STATUS)(spaces)
app.command("reembed", epilog=EXIT_STATUS)(reembed)
app.command("embed-pending", epilog=EXIT_STATUS)(embed_pending)
app.command("switch-space", epilog=EXIT_STATUS)(switch_space)
app.command("drop-space", epilog=EXIT_STATUS)(drop_space)
app.command("create-index", epilog=EXIT_STATUS)(create_index)
app.command("drop-index", epilog=EXIT_STATUS)(drop_index)
app.command("purge", epilog=EXIT_STATUS)(purge)
app.command("erase", epilog=EXIT_STATUS)(erase)
app.command("verify", epilog=EXIT_STATUS)(verify)
app.command("demo", epilog=EXIT_STATUS)(demo)


def main(arguments: list[str] | None = None) -> None:
    """Run ``arguments``, or those of the process, and end with the exit status that the help names."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a memory shows its number; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(args=arguments, prog_name="postgres-memory")
