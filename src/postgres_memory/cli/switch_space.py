"""``postgres-memory switch-space``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .output import print_json, say
from .reembed import Space
from .running import session


def switch_space(
    space: Space,
    max_pending: Annotated[
        int,
        typer.Option("--max-pending", min=0, help="At most so many memories may lack an embedding in it."),
    ] = 1000,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    *,
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Make an embedding space the active one, for every process at once; the one before is retired."""
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        at.run(at.memory.switch_space(space, max_pending=max_pending))
    if as_json:
        print_json({"active": space})
    else:
        say(f"space {space!r} is active")
