"""Values as people type them: JSON, times, a text or a dash for standard input."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

from postgres_memory._transfer.strict_json import NotJsonError, parse_json
from postgres_memory.errors import InvalidValueError


def json_of(text: str | None, option: str) -> Any:
    """Return the value that ``text`` writes as JSON, None if nothing was given."""
    if text is None:
        return None
    try:
        return parse_json(text)
    except NotJsonError as error:
        raise InvalidValueError(option, str(error)) from None


def time_of(text: str | None, option: str) -> datetime | None:
    """Return the time that ``text`` writes in ISO 8601, None if nothing was given."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValueError(option, "must be a time in ISO 8601, such as 2030-01-31T12:00:00Z") from None


def text_of(given: str) -> str:
    """Return what was given, or all of standard input, as it is, where that is a dash."""
    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidValueError("standard input", f"is not UTF-8 at byte {error.start + 1}") from None
