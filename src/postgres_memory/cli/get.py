"""``postgres-memory get``."""

from __future__ import annotations

from . import options
from .record_output import show_record
from .running import session


def get(
    id: options.Id,
    as_json: options.AsJson = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Print one memory with all its fields, whatever its status. The exit status is 1 if there is none."""
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        record = at.run(at.verbs.get(id))
    show_record(record, as_json=as_json)
