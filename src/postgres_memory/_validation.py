"""Checks of what callers pass in, made before anything is written.

Each check returns the value to go on with, or raises ``InvalidTypeError`` or ``InvalidValueError``. Messages
name the argument, the kind of the value and the rule; never the value.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from postgres_memory.errors import InvalidTypeError, InvalidValueError

MAX_CONTENT_BYTES = 1_048_576
"""How long a content may be unless the caller asks for more: 1 MiB of UTF-8."""

HARD_MAX_CONTENT_BYTES = 16 * 1024 * 1024
"""The most a caller can ask for. A text of n bytes has fewer than n shingles, in lower case too (no letter
becomes more characters than it has bytes): each count is below 2**24, up to where float4 is exact."""

MAX_KEY_BYTES = 255
"""How long a namespace, an id or another part of a key may be, in bytes of UTF-8: a key must fit an index."""

_MAX_BIGINT = 2**63 - 1


def check_content(value: object, argument: str = "content", max_bytes: int = MAX_CONTENT_BYTES) -> str:
    """Return ``value`` as a plain str that PostgreSQL can hold, of at most ``max_bytes`` bytes of UTF-8.

    Raises InvalidTypeError for what is not a str, InvalidValueError for a NUL character, a lone surrogate or
    a text that is too long.
    """
    if type(value) is str and value.isascii() and len(value) <= max_bytes and "\0" not in value:
        return value
    text = check_text(value, argument)
    # A character takes at least one byte, so that a text far too long is refused without encoding it.
    if len(text) > max_bytes or len(text.encode()) > max_bytes:
        raise InvalidValueError(argument, f"must be at most {max_bytes} bytes of UTF-8")
    return text


def check_content_limit(value: object, argument: str = "max_content_bytes") -> int:
    """Return a limit on content, in bytes: an int from 1 to ``HARD_MAX_CONTENT_BYTES``."""
    limit = _check_int(value, argument)
    if not 1 <= limit <= HARD_MAX_CONTENT_BYTES:
        raise InvalidValueError(argument, f"must be from 1 to {HARD_MAX_CONTENT_BYTES} bytes")
    return limit


def check_limit(value: object, argument: str = "limit") -> int:
    """Return ``value``, an int that is not negative; what is too large for a bigint becomes the largest one.

    Raises InvalidTypeError for what is not an int (a bool or a float is not), InvalidValueError if negative.
    """
    limit = _check_int(value, argument)
    if limit < 0:
        raise InvalidValueError(argument, "must not be negative")
    return min(limit, _MAX_BIGINT)


def check_count(value: object, argument: str) -> int:
    """Return ``value``, an int from 0 to what a bigint holds."""
    count = _check_int(value, argument)
    if not 0 <= count <= _MAX_BIGINT:
        raise InvalidValueError(argument, f"must be from 0 to {_MAX_BIGINT}")
    return count


def check_positive(value: object, argument: str) -> int:
    """Return ``value``, an int from 1 to what a bigint holds."""
    count = _check_int(value, argument)
    if not 1 <= count <= _MAX_BIGINT:
        raise InvalidValueError(argument, f"must be from 1 to {_MAX_BIGINT}")
    return count


def check_seconds(value: object, argument: str, *, or_none_at_all: bool = False) -> float:
    """Return ``value``, a number of seconds above 0 and at most a year, or also 0 if ``or_none_at_all``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(argument, f"must be a number of seconds, not {kind_of(value)}")
    if not (value > 0 or (or_none_at_all and value == 0)) or not value <= 366 * 86_400:
        raise InvalidValueError(argument, "must be above 0 seconds, and at most a year")
    return float(value)


def check_duration(value: object, argument: str) -> timedelta:
    """Return ``value``, a positive timedelta of at most a thousand years, which end before year 9999."""
    if not isinstance(value, timedelta):
        raise InvalidTypeError(argument, f"must be a timedelta, not {kind_of(value)}")
    if not timedelta(0) < value <= timedelta(days=365_250):
        raise InvalidValueError(argument, "must be positive, and at most a thousand years")
    return value


def check_namespace(value: object, argument: str = "namespace") -> str:
    """Return ``value`` as a namespace: a non-empty str of at most 255 bytes of UTF-8."""
    return check_key(value, argument)


def check_id(value: object, argument: str = "id") -> str:
    """Return ``value`` as an id: a non-empty str of at most 255 bytes of UTF-8."""
    return check_key(value, argument)


def check_key(value: object, argument: str) -> str:
    """Return ``value`` as a plain str that can be part of a key: not empty, at most 255 bytes of UTF-8.

    Raises InvalidTypeError for what is not a str, InvalidValueError for an empty or too long one, a NUL
    character or a lone surrogate. Every other character is an ordinary one.
    """
    if type(value) is str and value.isascii() and 0 < len(value) <= MAX_KEY_BYTES and "\0" not in value:
        return value
    text = check_text(value, argument)
    if not text:
        raise InvalidValueError(argument, "must not be empty")
    if len(text.encode()) > MAX_KEY_BYTES:
        raise InvalidValueError(argument, f"must be at most {MAX_KEY_BYTES} bytes of UTF-8")
    return text


def text_problem(text: str) -> str | None:
    """Return why PostgreSQL cannot hold ``text``, or None if it can."""
    nul = text.find("\0")
    if nul >= 0:
        return f"holds a NUL character at index {nul}, which PostgreSQL cannot store"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds a lone surrogate at index {error.start}, which UTF-8 cannot encode"
    return None


def check_text(value: object, argument: str) -> str:
    """Return ``value`` as a plain str that PostgreSQL can hold, of any length."""
    if not isinstance(value, str):
        raise InvalidTypeError(argument, f"must be a str, not {kind_of(value)}")
    text = str.__str__(value)  # the characters of a subclass, whatever its own __str__ says
    problem = text_problem(text)
    if problem is not None:
        raise InvalidValueError(argument, problem)
    return text


def _check_int(value: object, argument: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidTypeError(argument, f"must be an int, not {kind_of(value)}")
    return int(value)


def kind_of(value: Any) -> str:
    """Return the name of a value's type as a message spells it: ``list``, ``datetime.date``, ``None``."""
    if value is None:
        return "None"
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class Limits(NamedTuple):
    """Sizes above which input is refused."""

    content_bytes: int
