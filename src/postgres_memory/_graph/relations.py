"""`relations`: what one memory is related to, from whichever end it was stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._context import Context
from .._json import decode_metadata
from .._relation_reading import Direction, reading_of
from .._validation import check_id
from ..errors import NotFoundError
from ..graph_records import Relation
from ..records import MemoryRelationType

if TYPE_CHECKING:
    from asyncpg import Record


async def relations(
    context: Context, id: str, *, direction: Direction, types: Iterable[MemoryRelationType | str] | None
) -> list[Relation]:
    """Fetch the relations at either end, and turn round those that are read backwards."""
    from .._sql.relations import get_relations

    check_id(id)
    reading = reading_of(direction, types)
    rows = await context.fetch(
        get_relations, {"namespace": context.namespace, "id": id, **reading.parameters}
    )
    if not rows:
        raise NotFoundError(context.namespace, (id,))
    found = [
        reading.read(_stored(row), at_source=row["at_source"]) for row in rows if row["source_id"] is not None
    ]

    def order(relation: Relation) -> tuple[bool, str, str, str, bool]:
        incoming = relation.target_id == id
        other = relation.source_id if incoming else relation.target_id
        return incoming, relation.relation_type.value, relation.label, other, relation.reversed

    return sorted(found, key=order)


def _stored(row: Record) -> Relation:
    metadata = row["metadata"]
    return Relation(
        row["source_id"],
        row["target_id"],
        MemoryRelationType(row["relation_type"]),
        row["confidence"],
        {} if metadata == "{}" else decode_metadata(metadata),  # nearly all have none, and a hub has many
        row["label"],
    )
