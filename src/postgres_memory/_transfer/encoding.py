"""From rows of the database to the lines of an export. Pure; runs on a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from ..errors import InvalidValueError
from .format import MAX_LINE_BYTES, encode


class Row(Protocol):
    """What is read by column name."""

    def __getitem__(self, key: str, /) -> Any: ...


#: Fields of a memory's line in their order; ``metadata`` comes last.
_MEMORY = (
    "id",
    "content",
    "memory_type",
    "status",
    "created_at",
    "updated_at",
    "expires_at",
    "last_accessed",
    "access_count",
    "importance",
    "confidence",
    "tags",
    "thread_id",
    "session_id",
    "owner",
    "readers",
    "writers",
    "version",
    "deduped",
)
_RELATION = ("source_id", "relation_type", "label", "target_id", "confidence")
_MESSAGE = ("session_id", "created_at", "owner", "readers", "writers")

#: The keys that a line of each kind has, beside ``kind``, and the one among them whose JSON is taken as it is.
FIELDS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "memory": (_MEMORY, "metadata"),
    "supersedes": (("id", "replaced"), None),
    "relation": (_RELATION, "metadata"),
    "message": (_MESSAGE, "message"),
}


def encode_rows(kind: str, rows: Sequence[Row]) -> list[bytes]:
    """Return one line for each row of ``kind``. Raises InvalidValueError for one that no import would read."""
    lines = list(map(_encoder(kind), rows))
    for line in lines:
        if len(line) > MAX_LINE_BYTES:
            raise InvalidValueError(
                "target", f"would get a line of more than {MAX_LINE_BYTES} bytes, which could not be imported"
            )
    return lines


def _encoder(kind: str) -> Callable[[Row], bytes]:
    names, raw = FIELDS[kind]

    def encode_row(row: Row) -> bytes:
        values: dict[str, Any] = {"kind": kind}
        for name in names:
            value = row[name]
            values[name] = spell_time(value) if isinstance(value, datetime) else value
        text = encode(values)
        if raw is not None:
            # What PostgreSQL says of a jsonb value: every digit of every number, and never a line break.
            text = f'{text[:-1]},"{raw}":{row[raw]}}}'
        return f"{text}\n".encode()

    return encode_row


def spell_time(value: datetime) -> str:
    """Return an aware time as text, always with microseconds, so that equal times are equal texts."""
    return value.isoformat(timespec="microseconds")
