"""``postgres-memory migrate``."""

from __future__ import annotations

import typer

from . import options
from .running import session


def migrate(dsn: options.Dsn = None, schema: options.Schema = "memory", debug: options.Debug = False) -> None:
    """Create the schema in the database, or bring it to the newest revision.

    Several processes may do this at once: one works, the others wait. Without --dsn, POSTGRES_MEMORY_MIGRATION_DSN is
    asked first: the server itself, where the others name a pooler.
    """
    with session(options.Target(dsn, "default", schema, debug)) as at:
        revision = at.run(at.memory.migrate())
    typer.echo(f"schema {schema!r} is at revision {revision}")
