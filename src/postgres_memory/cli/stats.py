"""``postgres-memory stats``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postgres_memory._counted import counted

from . import options
from .output import add_row, print_json, print_table, table
from .running import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from postgres_memory.doctor_records import DayCount, Stats

_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN = "_.:-=+*#"
_BAR = 24
#: Of the indexes the largest, and those that are not valid.
_SHOWN = 12


def stats(
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", help="Count the memories of every namespace of the schema.")
    ] = False,
    days: Annotated[int, typer.Option("--days", min=1, help="Of how many days to show the growth.")] = 30,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Show how many memories there are, of which kinds, how they grew, and how large everything is.

    Sizes are of the whole schema, whatever the namespace. The rows of tables are estimates.
    """
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        found = at.run(at.memory.stats(all_namespaces=all_namespaces, days=days))
    if as_json:
        print_json(_data(found))
    else:
        _print(found)


def _data(found: Stats) -> dict[str, Any]:
    growth = [{"day": one.day.isoformat(), "memories": one.memories} for one in found.growth]
    return {**asdict(found), "growth": growth}


def _print(found: Stats) -> None:
    of = "all namespaces" if found.namespace is None else f"namespace {found.namespace!r}"
    print_table(
        _counts(found, f"{found.memories:,} {'memory' if found.memories == 1 else 'memories'} of {of}")
    )
    typer.echo(_growth(found.growth))
    print_table(_tables(found))
    print_table(_indexes(found))


def _counts(found: Stats, title: str) -> Table:
    made = _titled(title, "namespace", "type", "status", "memories", "")
    most = max((one.memories for one in found.counts), default=1)
    for one in found.counts:
        shown = f"{one.memories:,}".rjust(11)
        add_row(made, one.namespace, one.memory_type, one.status, shown, bar(one.memories, most))
    return made


def _growth(growth: Sequence[DayCount]) -> str:
    counts = [one.memories for one in growth]
    most = max(counts, default=0)
    return (
        f"added a day, {growth[0].day} to {growth[-1].day}: {sparkline(counts)}  "
        f"({sum(counts):,} in all, at most {most:,} a day)"
    )


def _tables(found: Stats) -> Table:
    made = _titled(
        f"{size(found.bytes).lstrip()} in tables and indexes", "table", "rows", "dead", "size", "indexes", ""
    )
    for one in found.tables:
        own = one.bytes + one.long_values_bytes
        rows = "?" if one.rows is None else f"{one.rows:,}"
        whole = own + one.indexes_bytes
        cells = (one.name, rows.rjust(11), f"{one.dead_rows:,}".rjust(9), size(own), size(one.indexes_bytes))
        add_row(made, *cells, bar(whole, found.bytes))
    return made


def _indexes(found: Stats) -> Table:
    shown = [one for number, one in enumerate(found.indexes) if number < _SHOWN or not one.valid]
    of = f"the largest {len(shown)} of {counted(len(found.indexes), 'index', 'indexes')}"
    made = _titled(of, "index", "table", "size", "scans", "health")
    for one in shown:
        health = "valid" if one.valid else "NOT VALID: postgres-memory doctor --repair"
        add_row(made, one.name, one.table, size(one.bytes), f"{one.scans:,}".rjust(11), health)
    return made


def _titled(title: str, *columns: str) -> Table:
    from rich.text import Text

    made = table(*columns)
    made.title = Text(title)
    return made


def sparkline(counts: Sequence[int]) -> str:
    """Return one character for each number, higher for larger ones; the lowest is for none."""
    most = max(counts, default=0)
    steps = len(_BLOCKS) - 1
    return "".join(_blocks()[-(-count * steps // most) if most else 0] for count in counts)


def bar(count: int, most: int) -> str:
    """Return a bar that says how large ``count`` is beside ``most``; what is more than nothing has some length."""
    return _blocks()[-1] * (-(-count * _BAR // most) if most else 0)


def _blocks() -> str:
    """Return the characters to draw with, in ASCII where the output could not show more."""
    import sys

    return _BLOCKS if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" else _PLAIN


def size(count: int) -> str:
    """Return a size in bytes for people to read, in ten characters."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    shown = f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
    return shown.rjust(10)
