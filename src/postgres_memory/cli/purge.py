"""``postgres-memory purge``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from postgres_memory._counted import counted
from postgres_memory.filters import field

from . import options
from .output import memories, print_json, progress, say
from .running import BatchByBatch, session

if TYPE_CHECKING:
    from postgres_memory._writing.purge import Purged


def purge(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many memories have expired, by the clock here.")
    ] = False,
    batch_size: options.BatchSize = 1000,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    *,
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Delete the expired memories and idempotency keys of a namespace, which nobody sees any more, to free their space.

    Ctrl-C leaves whole batches behind, and the last message says how many are deleted.
    """
    expired = keys = 0
    batches = BatchByBatch()

    def tell(so_far: Purged) -> None:
        nonlocal expired, keys
        expired, keys = so_far.memories, so_far.idempotency_keys
        batches.between()
        show(expired + keys, None)

    target = options.Target(dsn, namespace, schema, debug)
    with (
        session(target, state=lambda: f"stopped: {_said(expired, keys)}") as at,
        progress("purging") as show,
    ):
        if dry_run:
            gone = field("expires_at") <= datetime.now(UTC)
            expired = at.run(at.memory.count(gone, include_inactive=True))
        else:
            at.run(batches.run(at.memory.purge_expired(batch_size=batch_size, progress=tell)))
    if as_json:
        print_json({"dry_run": dry_run, "memories": expired, "idempotency_keys": None if dry_run else keys})
    elif dry_run:
        say(f"{memories(expired)} would be deleted")
    else:
        say(_said(expired, keys))


def _said(deleted: int, keys: int) -> str:
    return f"{memories(deleted)} and {counted(keys, 'idempotency key')} deleted"
