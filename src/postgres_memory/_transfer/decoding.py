"""From the lines of an export to rows for the database: every field checked as if the caller had given it. Pure.

The statements get the JSON of the line itself, not what Python made of it, so that numbers keep every digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .._record_checks import check_mapping
from .._validation import check_content, check_id, check_key, kind_of
from ..errors import InvalidInputError, InvalidTypeError, InvalidValueError
from ..records import MemoryPermissions, MemoryRecord, MemoryRelation
from .encoding import FIELDS
from .format import refusal
from .strict_json import NotJsonError, parse_line

#: For each kind, the keys of its lines.
_KEYS = {kind: {"kind", *names} | ({raw} if raw else set()) for kind, (names, raw) in FIELDS.items()}


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A memory to write; ``fields`` are those of its line, without the braces around them."""

    line: int
    id: str
    content: str
    deduped: bool
    fields: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """What leads from one memory to another, and what tells it from others that start there."""

    line: int
    source: str
    target: str
    key: tuple[str, ...]
    fields: str


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message to append to its session."""

    line: int
    session_id: str
    fields: str


Row = MemoryRow | LinkRow | MessageRow


def decode_line(kind: str, number: int, line: bytes, content_bytes: int) -> Row:
    """Return the row in a line. Raises InvalidValueError, which names the line and what is wrong with it."""
    try:
        value = parse_line(line)
        if not isinstance(value, dict) or value.keys() != _KEYS[kind]:
            raise refusal(number, f"does not have the keys of a {kind}")
        text = line.decode().strip()[1:-1]
        if kind == "memory":
            return _memory(value, number, text, content_bytes)
        return _OTHERS[kind](value, number, text)
    except NotJsonError as error:
        raise refusal(number, str(error)) from None
    except InvalidInputError as error:
        if error.argument == "source":
            raise
        raise refusal(number, str(error)) from error


def _memory(value: dict[str, Any], number: int, fields: str, content_bytes: int) -> MemoryRow:
    if not isinstance(value["deduped"], bool):
        raise InvalidTypeError("deduped", f"must be a bool, not {kind_of(value['deduped'])}")
    content = check_content(value["content"], max_bytes=content_bytes)
    last_accessed = None if value["last_accessed"] is None else _time(value, "last_accessed")
    record = MemoryRecord(
        id=value["id"],
        content=content,
        memory_type=value["memory_type"],
        status=value["status"],
        created_at=_time(value, "created_at"),
        updated_at=_time(value, "updated_at"),
        expires_at=None if value["expires_at"] is None else _time(value, "expires_at"),
        last_accessed=last_accessed,
        access_count=value["access_count"],
        importance=value["importance"],
        confidence=value["confidence"],
        tags=value["tags"],
        metadata=value["metadata"],
        permissions=MemoryPermissions(value["owner"], value["readers"], value["writers"]),
        thread_id=value["thread_id"],
        session_id=value["session_id"],
        version=value["version"],
    )
    if record.access_count and last_accessed is None:
        raise InvalidValueError("last_accessed", "must be a time where access_count is not 0")
    return MemoryRow(number, record.id, content, value["deduped"], fields)


def _supersedes(value: dict[str, Any], number: int, fields: str) -> LinkRow:
    newer, older = check_id(value["id"]), check_id(value["replaced"], "replaced")
    if newer == older:
        raise InvalidValueError("replaced", "must not be the memory itself")
    return LinkRow(number, newer, older, (newer,), fields)


def _relation(value: dict[str, Any], number: int, fields: str) -> LinkRow:
    source = check_id(value["source_id"], "source_id")
    relation = MemoryRelation(
        value["target_id"],
        value["relation_type"],
        value["confidence"],
        value["metadata"],
        value["label"],
    )
    if relation.target_id == source:
        raise InvalidValueError("target_id", "must not be the memory itself")
    key = (source, relation.relation_type.value, relation.label, relation.target_id)
    return LinkRow(number, source, relation.target_id, key, fields)


def _message(value: dict[str, Any], number: int, fields: str) -> MessageRow:
    session_id = check_key(value["session_id"], "session_id")
    _time(value, "created_at")
    MemoryPermissions(value["owner"], value["readers"], value["writers"])
    check_mapping(value["message"], "message")
    return MessageRow(number, session_id, fields)


_OTHERS: dict[str, Callable[[dict[str, Any], int, str], Row]] = {
    "supersedes": _supersedes,
    "relation": _relation,
    "message": _message,
}


def _time(value: dict[str, Any], name: str) -> datetime:
    text = value[name]
    if not isinstance(text, str):
        raise InvalidTypeError(name, f"must be a time as text, not {kind_of(text)}")
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValueError(name, "must be a time in ISO 8601") from None
    if time.tzinfo is None:
        raise InvalidValueError(name, "must have an offset from UTC")
    return time
