"""``postgres-memory search``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .given import text_of
from .output import add_row, complain, print_json, print_table, table
from .running import session

if TYPE_CHECKING:
    from postgres_memory.protocol import MemoryEntry


def search(
    query: Annotated[str, typer.Argument(show_default=False, help="What to look for; - reads it.")],
    limit: Annotated[int, typer.Option("--limit", min=0, help="At most how many.")] = 5,
    as_json: options.AsJson = False,
    *,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Print the memories nearest to a text, best first.

    The score is 1.00 for the same text and 0.00 for nothing in common. The table shortens long texts; --json does not.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        entries = at.run(at.verbs.search(text_of(query), limit))
    if as_json:
        print_json([{"content": e.content, "metadata": e.metadata, "score": e.score} for e in entries])
    elif entries:
        print_entries(entries)
    else:
        complain(f"no memories in namespace {namespace!r}" if limit else "nothing to show with --limit 0")


def print_entries(entries: Sequence[MemoryEntry], title: str | None = None) -> None:
    """Print a table of ``entries``."""
    made = table("score", "content", "metadata")
    made.title = title
    for entry in entries:
        metadata = json.dumps(entry.metadata, ensure_ascii=False) if entry.metadata else ""
        add_row(made, f"{entry.score:.2f}", entry.content, metadata)
    print_table(made)
