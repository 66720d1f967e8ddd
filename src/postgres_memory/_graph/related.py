"""`related`: the memories that relations lead to, each by the best way."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from .._context import Context
from .._record_checks import check_fraction
from .._relation_reading import Direction, Reading, reading_of
from .._validation import check_id, check_limit, check_positive
from ..errors import InvalidValueError, NotFoundError
from ..graph_records import Related, RelatedMemory, Relation
from ..records import MemoryRelationType

if TYPE_CHECKING:
    from asyncpg import Record

MAX_DEPTH = 32
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Caps:
    """How far and how wide a walk may go, checked when it is made."""

    max_depth: int
    max_fan_out: int
    max_visits: int

    def __post_init__(self) -> None:
        for name, most in (("max_depth", MAX_DEPTH), ("max_fan_out", _MOST), ("max_visits", _MOST)):
            if check_positive(getattr(self, name), name) > most:
                raise InvalidValueError(name, f"must be at most {most}")


async def related(
    context: Context,
    id: str,
    *,
    types: Iterable[MemoryRelationType | str] | None,
    direction: Direction,
    min_confidence: float,
    limit: int,
    caps: Caps,
    include_inactive: bool,
) -> Related:
    """Walk in one statement, one result more than asked, and read the ways as they were walked."""
    from .._sql.traversal import get_related

    reading = reading_of(direction, types)
    at_most = check_limit(limit)
    parameters = {
        "namespace": context.namespace,
        "id": check_id(id),
        "min_confidence": check_fraction(min_confidence, "min_confidence"),
        "limit": min(at_most, _MOST) + 1,
        "max_depth": caps.max_depth,
        "max_fan_out": caps.max_fan_out,
        "max_visits": caps.max_visits,
        **reading.parameters,
    }
    rows = await context.fetch(get_related, parameters, "all" if include_inactive else "active")
    if not rows:
        raise NotFoundError(context.namespace, (id,))
    reached = [row for row in rows if row["id"] is not None]
    return Related(
        tuple(_reached(row, reading) for row in reached[:at_most]),
        truncated=rows[0]["truncated"],
        has_more=len(reached) > at_most,
    )


def _reached(row: Record, reading: Reading) -> RelatedMemory:
    from .._sql.records import record_from_row

    path = tuple(row["path"])
    return RelatedMemory(
        record_from_row(row), row["depth"], row["path_confidence"], path, _steps(row, path, reading)
    )


def _steps(row: Record, path: tuple[str, ...], reading: Reading) -> tuple[Relation, ...]:
    steps = []
    walked = zip(pairwise(path), row["forwards"], json.loads(row["steps"]), strict=True)
    for (near, far), forward, (kind, label, confidence, metadata) in walked:
        source, target = (near, far) if forward else (far, near)
        stored = Relation(source, target, MemoryRelationType(kind), float(confidence), metadata, label)
        steps.append(reading.read(stored, at_source=forward))
    return tuple(steps)
