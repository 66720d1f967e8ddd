"""``postgres-memory enable-changes``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .output import print_json, say
from .running import session


def enable_changes(
    notify: Annotated[
        bool,
        typer.Option(
            "--notify/--no-notify",
            help="Whether each transaction wakes those who follow, for which such transactions commit one by one.",
        ),
    ] = True,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Turn the change feed of a namespace on, for all who write to it, and print a cursor to its beginning.

    It waits for the transactions that are under way in the database, since they may not know of it.
    """
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        cursor = at.run(at.memory.enable_changes(notify=notify))
    if as_json:
        print_json({"cursor": cursor})
    else:
        say(cursor)
