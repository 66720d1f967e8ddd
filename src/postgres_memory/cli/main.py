"""The entry point: which commands there are."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from postgres_memory._version import __version__

from .archive import archive
from .changes import changes
from .count import count
from .create_index import create_index
from .delete import delete
from .demo import demo
from .disable_changes import disable_changes
from .doctor import DOCTOR_STATUS, doctor
from .drop_index import drop_index
from .drop_space import drop_space
from .embed_pending import embed_pending
from .enable_changes import enable_changes
from .erase import erase
from .export import export
from .find import find
from .get import get
from .graph import graph
from .history import history
from .importing import import_
from .mcp import mcp
from .migrate import migrate
from .output import complain
from .prune_changes import prune_changes
from .purge import purge
from .recall import recall
from .reembed import reembed
from .relate import relate
from .related import related
from .restore import restore
from .running import PROBLEM, WRONG_USE
from .search import search
from .spaces import spaces
from .stats import stats
from .store import store
from .supersede import supersede
from .switch_space import switch_space
from .unrelate import unrelate
from .update import update
from .verify import verify

EXIT_STATUS = (
    "Exit status: 0 done; 1 the database or the data has a problem (also: no such memory, bad lines in an import, "
    "embeddings that differ), or a person said no; 2 the arguments, the input or the configuration are wrong; 130 "
    "interrupted (143 by SIGTERM, 129 by SIGHUP)."
)

NAME = "postgres-memory"

app = typer.Typer(
    name=NAME,
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


def _add(name: str, command: Callable[..., None], group: str, status: str = EXIT_STATUS) -> None:
    app.command(name, epilog=status, rich_help_panel=group)(command)


_add("migrate", migrate, "Set up")
_add("demo", demo, "Set up")
_add("store", store, "Memories")
_add("search", search, "Memories")
_add("recall", recall, "Memories")
_add("get", get, "Memories")
_add("find", find, "Memories")
_add("count", count, "Memories")
_add("update", update, "Memories")
_add("delete", delete, "Memories")
_add("relate", relate, "Relations")
_add("unrelate", unrelate, "Relations")
_add("related", related, "Relations")
_add("graph", graph, "Relations")
_add("supersede", supersede, "Versions")
_add("restore", restore, "Versions")
_add("archive", archive, "Versions")
_add("history", history, "Versions")
_add("import", import_, "Files")
_add("export", export, "Files")
_add("spaces", spaces, "Embedding spaces")
_add("reembed", reembed, "Embedding spaces")
_add("embed-pending", embed_pending, "Embedding spaces")
_add("switch-space", switch_space, "Embedding spaces")
_add("drop-space", drop_space, "Embedding spaces")
_add("create-index", create_index, "Embedding spaces")
_add("drop-index", drop_index, "Embedding spaces")
_add("changes", changes, "Change feed")
_add("enable-changes", enable_changes, "Change feed")
_add("disable-changes", disable_changes, "Change feed")
_add("prune-changes", prune_changes, "Change feed")
_add("purge", purge, "Upkeep")
_add("erase", erase, "Upkeep")
_add("verify", verify, "Upkeep")
_add("stats", stats, "Upkeep")
_add("doctor", doctor, "Upkeep", DOCTOR_STATUS)
_add("mcp", mcp, "Serve")


def main(arguments: list[str] | None = None) -> None:
    """Run ``arguments``, or those of the process, and end with the exit status that the help names."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a memory shows its number; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = app(args=arguments, prog_name=NAME, standalone_mode=False)
    except typer.Abort:
        sys.exit(PROBLEM)
    except Exception as error:
        # What typer says of arguments has this kind, whose name and module differ between its versions.
        if not isinstance(error, typer.BadParameter.__bases__):
            raise
        sys.exit(_refuse(error))
    sys.exit(status or 0)


def _refuse(error: Any) -> int:
    """Say in one line what is wrong with the arguments, and return the exit status."""
    context = error.ctx
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return WRONG_USE
    said = " ".join(str(error.format_message()).split()).removesuffix(".").replace(": Value error, ", ": ")
    asked = NAME if context is None else context.command_path
    more = " See" if said.endswith("?") else "; see"
    complain(f"{said[:1].lower()}{said[1:]}{more} {asked} --help")
    return WRONG_USE
