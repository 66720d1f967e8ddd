"""``postgres-memory restore``."""

from __future__ import annotations

from . import options
from .output import say
from .record_output import show_record
from .running import session


def restore(
    id: options.Id,
    as_json: options.AsJson = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Make a superseded or archived memory active again; the one that replaced it is archived then."""
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        record = at.run(at.verbs.restore(id))
    if as_json:
        show_record(record, as_json=True)
    else:
        say(f"{record.id} is {record.status}")
