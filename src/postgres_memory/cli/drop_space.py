"""``postgres-memory drop-space``."""

from __future__ import annotations

from postgres_memory._counted import counted

from . import options
from .output import print_json, say
from .reembed import Space
from .running import confirm, session


def drop_space(
    space: Space,
    yes: options.Yes = False,
    batch_size: options.BatchSize = 10_000,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    *,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Delete an embedding space that is not active, with its embeddings; memories stay.

    Interrupted, it is finished by calling it again.
    """
    target = options.Target(dsn, namespace, schema, debug)
    with session(target, state=lambda: "called again, it goes on with the rest") as at:
        at.run(at.memory.open())
        confirm(f"Drop space {space!r} of namespace {namespace!r}?", yes=yes)
        dropped = at.run(at.memory.drop_space(space, batch_size=batch_size))
    if as_json:
        print_json({"embeddings": dropped})
    else:
        say(f"space {space!r} is gone, with {counted(dropped, 'embedding')}")
