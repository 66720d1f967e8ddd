"""``postgres-memory unrelate``."""

from __future__ import annotations

import typer

from . import options
from .output import complain, print_json, say
from .relate import Label, Source, Target, Type
from .running import PROBLEM, session


def unrelate(
    source: Source,
    target: Target,
    type: Type,
    label: Label = "",
    *,
    as_json: options.AsJson = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Remove a relation, named as it was stored. The exit status is 1 if there was none."""
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        removed = at.run(at.verbs.unrelate(source, target, type, label=label))
    if as_json:
        print_json({"removed": removed})
    elif removed:
        say(f"{source} {type} {target}: removed")
    if not removed:
        complain(f"no relation {type} from {source!r} to {target!r} with label {label!r}")
        raise typer.Exit(PROBLEM)
