"""Memories as commands print them: whole in JSON, at a glance in tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .output import add_row, beginning, print_json, print_table, table

if TYPE_CHECKING:
    from postgres_memory.records import MemoryRecord

#: A row that is one of many shows this much of a content.
_IN_A_ROW = 100


def record_data(record: MemoryRecord) -> dict[str, Any]:
    """Return every field as JSON can hold it, but the hash embedding, which follows from the content."""
    data = asdict(record)
    del data["embedding"]
    return data


def show_record(record: MemoryRecord, *, as_json: bool) -> None:
    """Print one memory: in a table, without the fields that hold nothing."""
    data = record_data(record)
    if as_json:
        print_json(data)
        return
    made = table("field", "value")
    for name, value in data.items():
        if value not in (None, "", (), {}):
            add_row(made, name, value if name == "content" else _plain(value))
    print_table(made)


def print_records(records: Iterable[MemoryRecord], *, status: bool = False) -> None:
    """Print a table with a row for each memory."""
    made = table("id", "created", *(["status"] if status else []), "content")
    for record in records:
        shown = [str(record.status)] if status else []
        add_row(made, record.id, short_time(record.created_at), *shown, in_a_row(record.content))
    print_table(made)


def in_a_row(content: str) -> str:
    """Return what a row that is one of many shows of a content."""
    return beginning(content, _IN_A_ROW)


def short_time(moment: datetime) -> str:
    """Return a time as a table shows it, in UTC and to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
