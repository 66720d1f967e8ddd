"""The table ``store`` of LangGraph's PostgresStore: a prefix of labels joined by dots, a key, a value of any shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..._sql.sources import langgraph_rows
from ..strict_json import NotJsonError, parse_json
from .found import Bad, Found, Item, NotAMemoryError, derived_id, given, text_at
from .tables import Table

#: Where the text of a value is looked for, unless the caller says; the second is where LangMem puts it.
_FIELDS = ("text", "content.content", "content", "memory", "data")


def item_of(row: Mapping[str, Any], prefix: str, content_field: str | None = None) -> Found:
    """Return the memory of a row: its text, or, as the store itself embeds it, the whole value as JSON."""
    place = f"row {row['prefix']!r} {row['key']!r}"
    try:
        value = parse_json(row["value"])
        content, rest = _content(value, content_field)
    except (NotAMemoryError, NotJsonError) as error:
        return Bad(place, str(error))
    metadata = {"namespace": row["prefix"].split("."), "key": row["key"], "value": rest}
    if row["updated_at"] is not None and row["updated_at"] != row["created_at"]:
        metadata["updated_at"] = row["updated_at"].isoformat()
    values = given(
        id=derived_id(prefix, row["prefix"], row["key"]),
        content=content,
        metadata=metadata,
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
    return Item(place, values)


def _content(value: object, field: str | None) -> tuple[str, object]:
    """Return the text of a value, and the value without it."""
    if isinstance(value, dict):
        for path in _FIELDS if field is None else (field,):
            text = text_at(value, path)
            if text is not None:
                return text, _without(value, path)
    if field is not None:
        raise NotAMemoryError(f"the value has no text in {field[:40]!r}")
    return json.dumps(value, ensure_ascii=False), value


def _without(value: dict[str, Any], path: str) -> dict[str, Any]:
    step, _, further = path.partition(".")
    inner = value[step]
    if further and isinstance(inner, dict):
        inner = _without(inner, further)
        return {**value, step: inner} if inner else {k: v for k, v in value.items() if k != step}
    if further:  # a list: its places mean something, so that it stays whole
        return value
    return {name: part for name, part in value.items() if name != step}


LANGGRAPH = Table("langgraph", "store", langgraph_rows, item_of, prefix="langgraph/")
