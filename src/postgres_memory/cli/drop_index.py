"""``postgres-memory drop-index``."""

from __future__ import annotations

from . import options
from .output import print_json, say
from .reembed import Space
from .running import session


def drop_index(
    space: Space,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Drop the indexes of an embedding space in every namespace. Vectors stay, and are compared one by one."""
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        dropped = at.run(at.memory.drop_index(space))
    if as_json:
        print_json({"dropped": dropped})
    else:
        say(f"the index of space {space!r} is dropped" if dropped else f"space {space!r} had no index")
