"""Tables of mem0's pgvector store: ``id uuid, vector, payload jsonb``; the payload is the memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from ..._sql.sources import mem0_rows
from ..strict_json import NotJsonError, parse_json
from .found import Bad, Found, Item, NotAMemoryError, derived_id, given, time_of
from .tables import Table

#: What is in the payload for mem0's own use, or has a place of its own here.
_TAKEN = {"data", "hash", "text_lemmatized", "created_at", "expiration_date"}


def item_of(row: Mapping[str, Any], prefix: str) -> Found:
    """Return the memory of a row; its id is the one it has in mem0, so that ids kept elsewhere stay good."""
    place = f"row {row['id']}"
    try:
        return Item(place, _values(derived_id(prefix, row["id"]), _payload(row["payload"])))
    except (NotAMemoryError, NotJsonError) as error:
        return Bad(place, str(error))


def _payload(text: str | None) -> dict[str, Any]:
    payload = parse_json(text) if text is not None else None
    if not isinstance(payload, dict):
        raise NotAMemoryError("the payload is not an object")
    if not isinstance(payload.get("data"), str):
        raise NotAMemoryError("the payload has no text in data")
    return payload


def _values(id: str, payload: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in payload.items() if name not in _TAKEN}
    if metadata.get("updated_at") == payload.get("created_at"):
        metadata.pop("updated_at", None)
    run = payload.get("run_id")
    return given(
        id=id,
        content=payload["data"],
        metadata=metadata,
        created_at=time_of(payload.get("created_at"), "created_at"),
        expires_at=_end_of(payload.get("expiration_date")),
        session_id=run if isinstance(run, str) and run else None,
    )


def _end_of(day: object) -> datetime | None:
    """Return when a day is over, in UTC: mem0 shows a memory through the whole of its last day."""
    if not day:
        return None
    try:
        return datetime.combine(date.fromisoformat(str(day)) + timedelta(days=1), time(), UTC)
    except (ValueError, OverflowError):
        raise NotAMemoryError("expiration_date is not a date") from None


MEM0 = Table("mem0", "mem0", mem0_rows, item_of, prefix="")
