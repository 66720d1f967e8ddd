"""The entry point: which commands there are."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from postgres_memory._version import __version__

from .demo import demo
from .doctor import DOCTOR_STATUS, doctor
from .export import export
from .graph import graph
from .importing import import_
from .mcp import mcp
from .migrate import migrate
from .search import search
from .stats import stats
from .store import store
from .verify import verify

EXIT_STATUS = (
    "Exit status: 0 done; 1 the database or the data has a problem (also: bad lines in an import, embeddings that "
    "differ); 2 the arguments, the input or the configuration are wrong; 130 interrupted."
)

app = typer.Typer(
    name="postgres-memory",
    help="Memory for production agents on PostgreSQL and pgvector.",
    epilog=EXIT_STATUS,
    no_args_is_help=True,
    add_completion=False,
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
app.command("import", epilog=EXIT_STATUS)(import_)
app.command("export", epilog=EXIT_STATUS)(export)
app.command("graph", epilog=EXIT_STATUS)(graph)
app.command("verify", epilog=EXIT_STATUS)(verify)
app.command("stats", epilog=EXIT_STATUS)(stats)
app.command("doctor", epilog=DOCTOR_STATUS)(doctor)
app.command("mcp", epilog=EXIT_STATUS)(mcp)
app.command("demo", epilog=EXIT_STATUS)(demo)


def main(arguments: list[str] | None = None) -> None:
    """Run ``arguments``, or those of the process, and end with the exit status that the help names."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a memory shows its number; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(args=arguments, prog_name="postgres-memory")
