"""``postgres-memory related``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import options, walking
from .output import add_row, complain, print_json, print_table, table
from .record_output import in_a_row, record_data
from .running import session

if TYPE_CHECKING:
    from postgres_memory.graph_records import Related, RelatedMemory


def related(
    id: options.Id,
    types: walking.Types = None,
    direction: walking.WhichWay = walking.Direction.OUT,
    depth: walking.Depth = 2,
    *,
    min_confidence: walking.MinConfidence = 0.0,
    limit: walking.Limit = 50,
    include_inactive: options.IncludeInactive = False,
    as_json: options.AsJson = False,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """List the memories that relations of one memory lead to, most confident first, each with the best way to it.

    graph draws the same.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        found = at.run(
            at.verbs.related(
                id,
                types=types or None,
                direction=direction.value,
                max_depth=depth,
                min_confidence=min_confidence,
                limit=limit,
                include_inactive=include_inactive,
            )
        )
    if as_json:
        data = [_data(item) for item in found.items]
        print_json({"items": data, "truncated": found.truncated, "has_more": found.has_more})
    else:
        _print(found, id)


def _data(item: RelatedMemory) -> dict[str, Any]:
    return {
        "record": record_data(item.record),
        "depth": item.depth,
        "confidence": item.confidence,
        "path": item.path,
        "steps": [asdict(step) for step in item.steps],
    }


def _print(found: Related, id: str) -> None:
    if not found.items:
        complain(f"no relations of memory {id!r} lead anywhere")
        return
    made = table("confidence", "id", "by", "content", numbers=("confidence",))
    for item in found.items:
        add_row(made, f"{item.confidence:.2f}", item.record.id, _way(item), in_a_row(item.record.content))
    print_table(made)
    if found.has_more:
        complain("there are more than --limit shows")
    if found.truncated:
        complain("the walk was cut short by a cap: there may be more, and better ways")


def _way(item: RelatedMemory) -> str:
    """Name the relations on the way, and the memories between them."""
    steps = [f"{step.relation_type}{f' [{step.label}]' if step.label else ''}" for step in item.steps]
    between = [*(f" {id_} " for id_ in item.path[1:-1]), ""]
    return "".join(part for pair in zip(steps, between, strict=True) for part in pair)
