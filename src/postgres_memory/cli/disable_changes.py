"""``postgres-memory disable-changes``."""

from __future__ import annotations

from . import options
from .output import print_json, say
from .running import session


def disable_changes(
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Turn the change feed of a namespace off. Turned on again, it begins anew."""
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        was_on = at.run(at.memory.disable_changes())
    if as_json:
        print_json({"was_on": was_on})
    else:
        state = "is off" if was_on else "was off already"
        say(f"the change feed of namespace {namespace!r} {state}")
