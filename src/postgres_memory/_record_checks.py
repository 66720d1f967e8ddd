"""Checks of the fields of a record. Each returns the value to keep, or raises with the name of the field."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from struct import pack, unpack
from typing import Any, TypeVar

from ._json import decode_metadata, encode_metadata
from ._validation import MAX_KEY_BYTES, check_key, check_text, kind_of
from .errors import InvalidTypeError, InvalidValueError

EnumT = TypeVar("EnumT", bound=StrEnum)
ItemT = TypeVar("ItemT")

_DIMENSIONS = 32


def check_enum(value: object, kind: type[EnumT], argument: str) -> EnumT:
    """Return the member of ``kind`` that ``value`` is or names."""
    if isinstance(value, kind):
        return value
    try:
        if isinstance(value, str):
            return kind(value)
    except ValueError:
        raise InvalidValueError(argument, f"must be one of {_values_of(kind)}") from None
    raise InvalidTypeError(
        argument, f"must be a {kind.__name__} or one of {_values_of(kind)}, not {kind_of(value)}"
    )


def _values_of(kind: type[StrEnum]) -> str:
    return ", ".join(repr(member.value) for member in kind)


def check_fraction(value: object, argument: str) -> float:
    """Return a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(argument, f"must be a number from 0 to 1, not {kind_of(value)}")
    if not 0 <= value <= 1:  # also says no to NaN
        raise InvalidValueError(argument, "must be from 0 to 1")
    return float(value) + 0.0  # a negative zero becomes zero, as comparing them says


def check_time(value: object, argument: str) -> datetime | None:
    """Return an aware time in UTC, or None. A naive one is local time, as `datetime.astimezone` takes it."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidTypeError(argument, f"must be a datetime, not {kind_of(value)}")
    try:
        time = value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise InvalidValueError(argument, "is outside what UTC can hold in years 1 to 9999") from None
    # The driver writes the first and the last datetime, which stand for "always" and "never", as infinity, and reads
    # that back without a time zone.
    if time.replace(tzinfo=None) in (datetime.min, datetime.max):
        raise InvalidValueError(argument, "must lie inside years 1 to 9999; for no expiry leave it None")
    return time


def check_array(value: object, argument: str) -> tuple[str, ...]:
    """Return a tuple of non-empty strings of at most 255 bytes, in the order given."""
    if not isinstance(value, tuple | list):
        raise InvalidTypeError(argument, f"must be a tuple or list of str, not {kind_of(value)}")
    return tuple(check_key(item, f"{argument}[{position}]") for position, item in enumerate(value))


def check_array_of(value: object, kind: type[ItemT], argument: str) -> tuple[ItemT, ...]:
    """Return a tuple of objects of one class."""
    if not isinstance(value, tuple | list):
        raise InvalidTypeError(argument, f"must be a tuple of {kind.__name__}, not {kind_of(value)}")
    for position, item in enumerate(value):
        if not isinstance(item, kind):
            raise InvalidTypeError(
                f"{argument}[{position}]", f"must be a {kind.__name__}, not {kind_of(item)}"
            )
    return tuple(value)


def check_mapping(value: object, argument: str) -> dict[str, Any]:
    """Return a copy of metadata, as it will come back from the database."""
    if value is None:
        raise InvalidTypeError(argument, "must be a dict, not None")
    if not value and isinstance(value, dict):
        return {}
    return decode_metadata(encode_metadata(value, argument))


def check_label(value: object, argument: str) -> str:
    """Return a text of at most 255 bytes, possibly empty."""
    text = check_text(value, argument)
    if len(text.encode()) > MAX_KEY_BYTES:
        raise InvalidValueError(argument, f"must be at most {MAX_KEY_BYTES} bytes of UTF-8")
    return text


def check_optional_key(value: object, argument: str) -> str | None:
    """Return a key, or None."""
    return None if value is None else check_key(value, argument)


def check_embedding(value: object) -> tuple[float, ...] | None:
    """Return 32 finite numbers as float4 holds them, or None."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise InvalidTypeError("embedding", f"must be {_DIMENSIONS} numbers, not {kind_of(value)}")
    numbers = [float(number) for number in value]
    if len(numbers) != _DIMENSIONS or not all(abs(number) <= 1 for number in numbers):
        raise InvalidValueError("embedding", f"must be {_DIMENSIONS} numbers from -1 to 1")
    return unpack(f"{_DIMENSIONS}f", pack(f"{_DIMENSIONS}f", *numbers))
