"""``postgres-memory changes``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .output import say, spelt_time, steady
from .running import session

if TYPE_CHECKING:
    from postgres_memory.change_records import Change


def changes(
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="CURSOR",
            show_default=False,
            help="Begin behind the change of this cursor, which --json prints; without it, at the oldest that is kept.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for those that come, until Ctrl-C.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each change as JSON, one to a line, with its cursor.")
    ] = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Print what happened to the memories of a namespace, in order: one change to a line.

    A line is printed when the change is committed, and every transaction that wrote before it is over. The namespace
    must have a change feed: see enable-changes.
    """

    async def show() -> None:
        async for change in at.memory.changes(since, follow=follow):
            if as_json:
                typer.echo(steady(json.dumps(asdict(change), default=spelt_time)))
            else:
                say(_line(change))
            sys.stdout.flush()

    with session(options.Target(dsn, namespace, schema, debug)) as at:
        at.run(show())


def _line(change: Change) -> str:
    said = f"{change.at:%Y-%m-%d %H:%M:%S}Z {change.kind:<10} {change.id}"
    if change.version is not None:
        return f"{said} version {change.version}"
    label = f" ({change.label})" if change.label else ""
    return f"{said} {change.relation_type}{label} {change.target_id}"
