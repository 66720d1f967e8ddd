"""``postgres-memory prune-changes``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from postgres_memory._counted import counted

from . import options
from .output import print_json, say
from .running import session


def prune_changes(
    days: Annotated[
        float,
        typer.Option("--older-than", metavar="DAYS", show_default=False, help="How old is old, in days."),
    ],
    batch_size: options.BatchSize = 1000,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Delete old changes of a namespace. Whoever has not read them by then is told so.

    Ctrl-C leaves whole batches behind.
    """
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        pruned = at.run(at.memory.prune_changes(timedelta(days=days), batch_size=batch_size))
    if as_json:
        print_json({"changes": pruned})
    else:
        say(f"{counted(pruned, 'change')} deleted")
