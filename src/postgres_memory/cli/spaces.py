"""``postgres-memory spaces``."""

from __future__ import annotations

from dataclasses import asdict

from . import options
from .output import add_row, complain, print_json, print_table, table
from .running import session


def spaces(
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """List the embedding spaces of a namespace, oldest first, with how many memories each holds and lacks.

    The hash space, which always holds every memory, is not among them.
    """
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        found = at.run(at.memory.spaces())
    if as_json:
        print_json([asdict(space) for space in found])
        return
    if not found:
        complain(f"no embedding spaces in namespace {namespace!r}")
        return
    numbers = ("dimensions", "embedded", "pending")
    made = table("space", "status", *numbers, "distance", numbers=numbers)
    for one in found:
        counts = (str(one.dimensions), str(one.embedded), str(one.pending))
        add_row(made, one.name, one.status, *counts, one.distance)
    print_table(made)
