"""What commands print: plain lines, tables, JSON, progress. Results go to stdout, all else to stderr."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from postgres_memory._counted import counted

if TYPE_CHECKING:
    from rich.table import Table

    from .bars import Unit

#: A table shows this much of a text; JSON shows all of it.
MAX_SHOWN = 400

#: Columns of ids get the room that an id of the library's making needs, whatever else there is.
_IDS = ("id", "replaced")
_ID_WIDTH = 36

#: Controls that JSON need not escape, but a terminal may obey: C1, and those that turn the direction of writing.
_STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def complain(text: str) -> None:
    """Write one line to stderr."""
    sys.stderr.write(f"postgres-memory: {spelt_out(' '.join(text.splitlines()))}\n")


def say(text: str) -> None:
    """Print one line to stdout."""
    typer.echo(spelt_out(" ".join(text.splitlines())))


def memories(number: int) -> str:
    """Return how many memories in words."""
    return counted(number, "memory", "memories")


def print_json(value: Any) -> None:
    """Print ``value`` as JSON, in ASCII where the output could not hold more; times as ISO 8601."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", indent=2, default=spelt_time)
    typer.echo(steady(text))


def steady(text: str) -> str:
    """Return JSON with what would steer a terminal escaped."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def spelt_time(value: object) -> str:
    """Return a time as JSON holds it: ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    raise TypeError(f"JSON holds no {type(value).__name__}")


def table(*columns: str, numbers: Collection[str] = ("score",)) -> Table:
    """Return an empty table with these headings; columns of ``numbers`` are not broken, and set right."""
    from rich.table import Table

    made = Table(title_justify="left")
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in numbers else "left",
            overflow="fold",
            no_wrap=name in numbers,
        )
    return made


def add_row(to: Table, *cells: str) -> None:
    """Add texts as they are: no markup, and nothing that would steer the terminal."""
    from rich.text import Text

    texts = [Text(shown(cell)) for cell in cells]
    for column, text in zip(to.columns, texts, strict=True):
        if column.header in _IDS:
            column.width = max(len(str(column.header)), column.width or 0, min(_ID_WIDTH, text.cell_len))
    to.add_row(*texts)


def print_table(made: Table) -> None:
    """Print a table to stdout."""
    from rich.console import Console

    Console(markup=False, highlight=False, emoji=False).print(made)


def shown(text: str) -> str:
    """Return ``text`` as a table shows it: what is longer than ``MAX_SHOWN`` characters is cut, and says so."""
    return spelt_out(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…\n({len(text)} characters)")


def beginning(text: str, most: int) -> str:
    """Return ``text`` on one line, and no more of it than ``most`` characters."""
    line = " ".join(text[: 10 * most].split())
    return f"{line[:most]}…" if len(line) > most or len(text) > 10 * most else line


def spelt_out(text: str) -> str:
    """Return ``text`` with its control characters spelt out, so that it cannot steer a terminal."""
    return "".join(
        character
        if character == "\n"
        or not (unicodedata.category(character) in {"Cc", "Cs"} or _STEERING.match(character))
        else repr(character)[1:-1]
        for character in text
    )


@contextmanager
def progress(
    what: str, total: int | None = None, *, unit: Unit = "number"
) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on stderr while the body runs, if that is a terminal; it is told how much of how much is done."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from .bars import bar

    with bar(unit) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done, of: shown.update(task, completed=done, total=of)
