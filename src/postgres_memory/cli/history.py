"""``postgres-memory history``."""

from __future__ import annotations

from . import options
from .output import add_row, print_json, print_table, table
from .record_output import in_a_row, record_data, short_time
from .running import session


def history(
    id: options.Id,
    as_json: options.AsJson = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Print all versions of a memory, in the order in which they were stored.

    These are the memory, what it replaced, what replaced it, and so on; any of them gives the same list.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        records = at.run(at.verbs.history(id))
    if as_json:
        print_json([record_data(record) for record in records])
        return
    made = table("id", "created", "status", "replaced", "content")
    for record in records:
        replaced = record.supersedes or ""
        add_row(
            made, record.id, short_time(record.created_at), record.status, replaced, in_a_row(record.content)
        )
    print_table(made)
