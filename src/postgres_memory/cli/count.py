"""``postgres-memory count``."""

from __future__ import annotations

from . import options
from .given import json_of
from .output import print_json, say
from .running import session


def count(
    filter: options.Filter = None,
    include_inactive: options.IncludeInactive = False,
    as_json: options.AsJson = False,
    principal: options.As = None,
    *,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Print how many memories match a filter."""
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        number = at.run(at.verbs.count(json_of(filter, "--filter"), include_inactive=include_inactive))
    if as_json:
        print_json({"count": number})
    else:
        say(str(number))
