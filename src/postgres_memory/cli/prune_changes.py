"""``postgres-memory prune-changes``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from postgres_memory._counted import counted

from . import options
from .output import print_json, progress, say
from .running import BatchByBatch, session


def prune_changes(
    days: Annotated[
        float,
        typer.Option("--older-than", metavar="DAYS", show_default=False, help="How old is old, in days."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many are so old.")] = False,
    batch_size: options.BatchSize = 1000,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    *,
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Delete old changes of a namespace. Whoever has not read them by then is told so.

    Ctrl-C leaves whole batches behind, and the last message says how many are deleted.
    """
    pruned = 0
    batches = BatchByBatch()

    def tell(so_far: int) -> None:
        nonlocal pruned
        pruned = so_far
        batches.between()
        show(so_far, None)

    target = options.Target(dsn, namespace, schema, debug)
    with (
        session(target, state=lambda: f"stopped: {counted(pruned, 'change')} deleted") as at,
        progress("pruning") as show,
    ):
        pruning = at.memory.prune_changes(
            timedelta(days=days), batch_size=batch_size, dry_run=dry_run, progress=tell
        )
        pruned = at.run(batches.run(pruning))
    if as_json:
        print_json({"dry_run": dry_run, "changes": pruned})
    else:
        say(f"{counted(pruned, 'change')} {'would be deleted' if dry_run else 'deleted'}")
