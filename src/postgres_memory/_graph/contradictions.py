"""`contradictions`: memories that cannot both be right, in pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._validation import check_limit
from ..filters import Filter, check_filter
from ..graph_records import Contradiction, Relation
from ..records import MemoryRelationType

if TYPE_CHECKING:
    from asyncpg import Record


async def contradictions(
    context: Context, *, filter: Filter | Mapping[str, Any] | None, limit: int | None
) -> list[Contradiction]:
    """Fetch the pairs and their memories, each once, in one statement."""
    from .._sql.predicates import prepare_filter, visibility_of
    from .._sql.relations import get_contradictions

    wanted = check_filter(filter)
    prepared = prepare_filter(wanted)
    parameters = {
        "namespace": context.namespace,
        "limit": None if limit is None else check_limit(limit),
        **prepared.parameters,
    }
    visibility = visibility_of(wanted, include_inactive=False)
    rows = await context.fetch(get_contradictions, parameters, visibility, prepared.shape)
    return _pairs(rows)


def _pairs(rows: list[Record]) -> list[Contradiction]:
    from .._sql.records import record_from_row

    records = {row["id"]: record_from_row(row) for row in rows}
    told = [(row["id"], *pair) for row in rows for pair in json.loads(row["pairs"] or "[]")]
    return [
        Contradiction(
            records[first], records[second], float(confidence), tuple(_relation(one) for one in joined_by)
        )
        for first, _, second, confidence, joined_by in sorted(told, key=lambda pair: int(pair[1]))
    ]


def _relation(told: tuple[str, str, str, float, dict[str, Any]]) -> Relation:
    source, target, label, confidence, metadata = told
    return Relation(source, target, MemoryRelationType.CONTRADICTS, float(confidence), metadata, label)
