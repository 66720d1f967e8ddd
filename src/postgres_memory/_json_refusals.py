"""What to do with a value that metadata cannot hold: the hint in the error message."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

# The first match counts, so a named type stands before what it is an instance of too. Datetimes are dates.
_HINTS: tuple[tuple[type[Any], str], ...] = (
    (Enum, "use value.value"),
    (date, "use value.isoformat()"),
    (time, "use value.isoformat()"),
    (timedelta, "use value.total_seconds()"),
    (UUID, "use str(value)"),
    (Decimal, "use str(value)"),
    (Fraction, "use str(value)"),
    (complex, "use [value.real, value.imag]"),
    (os.PathLike, "use os.fspath(value)"),
    (bytes, "use base64.b64encode(value).decode(), or value.decode() if it is text"),
    (bytearray, "use base64.b64encode(value).decode(), or value.decode() if it is text"),
    (memoryview, "use base64.b64encode(value).decode()"),
    (set, "use sorted(value) or list(value)"),
    (frozenset, "use sorted(value) or list(value)"),
    (tuple, "use list(value)"),
    (Mapping, "use dict(value)"),
)


def how_to_convert(value: object) -> str:
    """Return how to make ``value`` something that metadata can hold, as an expression on ``value``."""
    record = _how_to_open_record(value)
    if record is not None:
        return record
    for kind, hint in _HINTS:
        if isinstance(value, kind):
            return hint
    if callable(getattr(value, "tolist", None)):  # numpy: arrays, and scalars (an array without dimensions)
        return "use value.tolist()"
    if isinstance(value, Iterable):
        return "use list(value)"
    return "convert it to str, int, float, bool, None, list or dict"


def how_to_make_dict(value: object) -> str:
    """Return the end of a message about metadata that is no dict: how to make it one, if there is a way."""
    hint = "use dict(value)" if isinstance(value, Mapping) else _how_to_open_record(value)
    return f"; {hint}" if hint is not None else ""


def _how_to_open_record(value: object) -> str | None:
    if isinstance(value, type):
        return None
    if callable(getattr(value, "model_dump", None)):  # pydantic
        return 'use value.model_dump(mode="json")'
    if dataclasses.is_dataclass(value):
        return "use dataclasses.asdict(value)"
    return None
