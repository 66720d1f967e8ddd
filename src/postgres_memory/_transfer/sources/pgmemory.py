"""The table of the package pgmemory: one row a memory, with its application, user, category and importance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._sql.sources import pgmemory_rows
from ..strict_json import NotJsonError, parse_json
from .found import Bad, Found, Item, derived_id, given
from .tables import Table

#: pgmemory's importance is a whole number from 1 to this.
_MOST_IMPORTANT = 5

_KEPT = ("app_name", "user_id", "category", "source_event_id", "source_role")
_TIMES = ("valid_from", "last_accessed", "source_event_timestamp")


def item_of(row: Mapping[str, Any], prefix: str) -> Found:
    """Return the memory of a row. Its number is one of its table only, which belongs to the id."""
    place = f"row {row['id']}"
    try:
        metadata = given(**{name: row[name] for name in _KEPT}, metadata=parse_json(row["metadata"]))
    except NotJsonError as error:
        return Bad(place, str(error))
    for name in _TIMES:
        if row[name] is not None and row[name] != row["created_at"]:
            metadata[name] = row[name].isoformat()
    if not 1 <= row["importance"] <= _MOST_IMPORTANT:
        return Bad(place, f"importance must be from 1 to {_MOST_IMPORTANT}")
    values = given(
        id=derived_id(prefix, str(row["id"])),
        content=row["content"],
        metadata=metadata,
        created_at=row["created_at"],
        expires_at=row["valid_until"],
        importance=row["importance"] / _MOST_IMPORTANT,
        session_id=row["source_session_id"] or None,
        tags=[row["category"]] if row["category"] else None,
    )
    return Item(place, values)


PGMEMORY = Table("pgmemory", "memory", pgmemory_rows, item_of, prefix="pgmemory/{table}/")
