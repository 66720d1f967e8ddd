"""``postgres-memory relate``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from postgres_memory.records import MemoryRelationType

from . import options
from .given import json_of
from .output import print_json, say
from .running import session

Source = Annotated[str, typer.Argument(show_default=False, help="The memory that it is said of.")]
Target = Annotated[str, typer.Argument(show_default=False, help="The memory that it stands to.")]
Type = Annotated[MemoryRelationType, typer.Argument(show_default=False, help="How.")]
Label = Annotated[
    str, typer.Option("--label", show_default=False, help="A word of your own beside the type.")
]


def relate(
    source: Source,
    target: Target,
    type: Type,
    label: Label = "",
    confidence: Annotated[float, typer.Option("--confidence", help="From 0 to 1.")] = 1.0,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", metavar="JSON", show_default=False, help="A JSON object to keep with it."),
    ] = None,
    *,
    as_json: options.AsJson = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Store that SOURCE stands in a relation of TYPE to TARGET.

    If it is stored already, it gets this confidence and metadata in place of its own.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        relation = at.run(
            at.verbs.relate(
                source,
                target,
                type,
                label=label,
                confidence=confidence,
                metadata=json_of(metadata, "--metadata"),
            )
        )
    if as_json:
        print_json(asdict(relation))
    else:
        say(f"{source} {type} {target}")
