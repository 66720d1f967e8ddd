"""``postgres-memory graph``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from . import options, walking
from .output import print_json
from .running import session

if TYPE_CHECKING:
    from postgres_memory.graph_records import Related
    from postgres_memory.postgres import Verbs
    from postgres_memory.records import MemoryRecord


class Format(StrEnum):
    """How to draw."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"


def graph(
    id: Annotated[str, typer.Argument(show_default=False, help="The memory to begin with.")],
    depth: walking.Depth = 2,
    format: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="text, mermaid, dot or json.")
    ] = Format.TEXT,
    direction: walking.WhichWay = walking.Direction.BOTH,
    types: walking.Types = None,
    *,
    min_confidence: walking.MinConfidence = 0.0,
    limit: walking.Limit = 50,
    include_inactive: options.IncludeInactive = False,
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Draw the memories that relations of one memory lead to, each by the best way.

    The text is a tree: "supports →" leads from the memory above to the one in the line, "← supports" from it to the
    one above, "— related —" is said of both. Drawings shorten contents; JSON does not.
    """

    async def look(memory: Verbs) -> tuple[MemoryRecord, Related]:
        related = await memory.related(
            id,
            types=types or None,
            direction=direction.value,
            max_depth=depth,
            min_confidence=min_confidence,
            limit=limit,
            include_inactive=include_inactive,
        )
        return await memory.get(id), related

    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        start, related = at.run(look(at.verbs))
    _print(Format.JSON if as_json else format, start, related)


def _print(format: Format, start: MemoryRecord, related: Related) -> None:
    # Imported here, so that --help does not wait for it.
    from postgres_memory.drawing import dot, graph_data, mermaid, text_tree

    if format is Format.JSON:
        print_json(graph_data(start, related))
        return
    draw = {Format.TEXT: text_tree, Format.MERMAID: mermaid, Format.DOT: dot}[format]
    typer.echo(draw(start, related))
