"""What commands print: plain lines, tables, JSON, progress. Results go to stdout, all else to stderr."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

#: A table shows this much of a text; JSON shows all of it.
MAX_SHOWN = 400


def complain(text: str) -> None:
    """Write one line to stderr."""
    sys.stderr.write(f"postgres-memory: {spelt_out(' '.join(text.splitlines()))}\n")


def print_json(value: Any) -> None:
    """Print ``value`` as JSON, in ASCII where the output could not hold more."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    typer.echo(json.dumps(value, ensure_ascii=encoding != "utf8", indent=2))


def table(*columns: str) -> Table:
    """Return an empty table with these headings; numbers go into a first column that is called score."""
    from rich.table import Table

    made = Table(title_justify="left")
    for name in columns:
        made.add_column(
            name, justify="right" if name == "score" else "left", overflow="fold", no_wrap=name == "score"
        )
    return made


def add_row(to: Table, *cells: str) -> None:
    """Add texts as they are: no markup, and nothing that would steer the terminal."""
    from rich.text import Text

    to.add_row(*(Text(shown(cell)) for cell in cells))


def print_table(made: Table) -> None:
    """Print a table to stdout."""
    from rich.console import Console

    Console(markup=False, highlight=False, emoji=False).print(made)


def shown(text: str) -> str:
    """Return ``text`` as a table shows it: what is longer than ``MAX_SHOWN`` characters is cut, and says so."""
    return spelt_out(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…\n({len(text)} characters)")


def spelt_out(text: str) -> str:
    """Return ``text`` with its control characters spelt out, so that it cannot steer a terminal."""
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in {"Cc", "Cs"}
        else repr(character)[1:-1]
        for character in text
    )


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on stderr while the body runs, if that is a terminal; it is told how much of how much is done."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
