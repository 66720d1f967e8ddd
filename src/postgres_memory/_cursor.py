"""Cursors: where the next page begins, as an opaque text bound to the question it belongs to.

A cursor holds the place of the last memory of a page (its value in the order, and its ``seq``), a digest of the
question and a checksum. Neither is secret: a cursor grants nothing, since every statement names its namespace.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ._validation import check_text
from .errors import InvalidValueError

_VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

#: Version, digest of the question, value (a float, or microseconds since 1970), seq; then the checksum.
_TIME_PLACE = struct.Struct(">B12sqq")
_NUMBER_PLACE = struct.Struct(">B12sdq")
_CHECKSUM_BYTES = 6
_CURSOR_BYTES = _TIME_PLACE.size + _CHECKSUM_BYTES


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an order: the value there and the ``seq`` that tells equal values apart."""

    value: datetime | float
    seq: int


def digest_question(*parts: object) -> bytes:
    """Return 12 bytes that stand for what was asked: JSON values, tuples and times."""
    text = json.dumps(parts, ensure_ascii=True, sort_keys=True, default=_spell)
    return hashlib.sha256(text.encode()).digest()[:12]


def _spell(value: object) -> object:
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    return repr(value)


def encode_cursor(place: Place, question: bytes) -> str:
    """Return the cursor of a place."""
    if isinstance(place.value, datetime):
        packed = _TIME_PLACE.pack(_VERSION, question, (place.value - _EPOCH) // _MICROSECOND, place.seq)
    else:
        packed = _NUMBER_PLACE.pack(_VERSION, question, place.value, place.seq)
    return base64.urlsafe_b64encode(packed + _checksum(packed)).decode().rstrip("=")


def decode_cursor(cursor: object, question: bytes, *, of_times: bool) -> Place:
    """Return the place of a cursor that belongs to ``question``.

    Raises InvalidTypeError for what is no str, InvalidValueError for what is no cursor or another question's.
    """
    text = check_text(cursor, "cursor")
    packed = _unpacked(text)
    version, asked, *_ = _TIME_PLACE.unpack(packed)
    if version != _VERSION:
        raise InvalidValueError(
            "cursor", "was made by another version of this package; begin again without it"
        )
    if asked != question:
        raise InvalidValueError(
            "cursor", "belongs to another filter, order or namespace; begin again without it"
        )
    value, seq = (_TIME_PLACE if of_times else _NUMBER_PLACE).unpack(packed)[2:]
    return Place(_EPOCH + value * _MICROSECOND if of_times else value, seq)


def _unpacked(text: str) -> bytes:
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    packed = raw[:-_CHECKSUM_BYTES]
    if len(raw) != _CURSOR_BYTES or raw[-_CHECKSUM_BYTES:] != _checksum(packed):
        raise InvalidValueError("cursor", "is damaged; pass one on as it was given")
    return packed


def _checksum(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()[:_CHECKSUM_BYTES]
