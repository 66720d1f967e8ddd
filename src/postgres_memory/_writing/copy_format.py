"""Rows in PostgreSQL's binary COPY format (documentation of COPY, section "Binary Format").

Written by hand because it is the hot loop of bulk loading: the driver's own encoder needs a codec for pgvector's type
and builds every row from Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import bytes_, float32, int64
    from numpy.typing import NDArray

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_TEXT_OID = 25
_DIMENSIONS = 32

_int16 = Struct(">h").pack
_int32 = Struct(">i").pack
_jsonb_head = Struct(">iB").pack
_sized_int64 = Struct(">iq").pack
_sized_float8 = Struct(">id").pack
_array_head = Struct(">iiIii").pack

NULL = _int32(-1)


def columns(count: int) -> bytes:
    """Return what begins a row of ``count`` columns."""
    return _int16(count)


def text(value: str | None) -> bytes:
    """Return a text field."""
    if value is None:
        return NULL
    data = value.encode()
    return _int32(len(data)) + data


def json(value: str) -> bytes:
    """Return a jsonb field: a version byte and the text."""
    data = value.encode()
    return _int32(len(data) + 1) + b"\x01" + data


def content_and_metadata(data: bytes, document: bytes) -> bytes:
    """Return `text` and `json` fields, one behind the other, in half the time of the two calls."""
    return b"%b%b%b%b" % (_int32(len(data)), data, _jsonb_head(len(document) + 1, 1), document)


def bytea(value: bytes | None) -> bytes:
    """Return a bytea field."""
    return NULL if value is None else _int32(len(value)) + value


def bigint(value: int) -> bytes:
    """Return a bigint field."""
    return _sized_int64(8, value)


def double(value: float) -> bytes:
    """Return a double precision field."""
    return _sized_float8(8, value)


def time(value: datetime | None) -> bytes:
    """Return a timestamptz field: microseconds since 2000."""
    if value is None:
        return NULL
    since = value - _EPOCH
    return _sized_int64(8, (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def texts(values: Sequence[str]) -> bytes:
    """Return a text[] field."""
    if not values:
        return _int32(12) + Struct(">iiI").pack(0, 0, _TEXT_OID)
    data = _array_head(1, 0, _TEXT_OID, len(values), 1) + b"".join(map(text, values))
    return _int32(len(data)) + data


def heads(
    namespace: str, language: str, width: int, ids: NDArray[bytes_], seqs: Sequence[int]
) -> list[bytes]:
    """Return the beginnings of rows of ``width`` columns: namespace, language, id (all of one length), seq."""
    import numpy as np

    length = ids.itemsize
    head = columns(width) + text(namespace) + text(language) + _int32(length)
    layout = np.dtype([("head", f"V{len(head)}"), ("id", f"S{length}"), ("size", ">i4"), ("seq", ">i8")])
    rows = np.empty(len(seqs), layout)
    rows["head"] = np.void(head)
    rows["id"] = ids
    rows["size"] = 8
    rows["seq"] = seqs
    whole, step = rows.tobytes(), layout.itemsize
    return [whole[start : start + step] for start in range(0, len(whole), step)]


def hash_rows(namespace: str, seqs: Sequence[int], status: str, counts: NDArray[int64]) -> bytes:
    """Return whole rows of (namespace, seq, status, embedding), all of one namespace and status, without a loop."""
    import numpy as np

    head = columns(4) + text(namespace)
    middle = text(status) + _int32(4 + 4 * _DIMENSIONS) + _int16(_DIMENSIONS) + _int16(0)
    layout = np.dtype(
        [
            ("head", f"V{len(head)}"),
            ("size", ">i4"),
            ("seq", ">i8"),
            ("middle", f"V{len(middle)}"),
            ("embedding", ">f4", (_DIMENSIONS,)),
        ]
    )
    rows = np.empty(len(seqs), layout)
    rows["head"] = np.void(head)
    rows["size"] = 8
    rows["seq"] = seqs
    rows["middle"] = np.void(middle)
    rows["embedding"] = counts
    return rows.tobytes()


def hash_row(namespace: str, seq: int, status: str, counts: NDArray[int64]) -> bytes:
    """Return the beginning of one row of (namespace, seq, status, embedding, expires_at): all but the last field."""
    vector = _int32(4 + 4 * _DIMENSIONS) + _int16(_DIMENSIONS) + _int16(0) + counts.astype(">f4").tobytes()
    return columns(5) + text(namespace) + bigint(seq) + text(status) + vector


def vector_rows(namespace: str, space: str, seqs: Sequence[int], vectors: NDArray[float32]) -> bytes:
    """Return whole rows of (namespace, space, field, seq, embedding), their field the content, without a loop."""
    import numpy as np

    dimensions = vectors.shape[1]
    head = columns(5) + text(namespace) + text(space) + text("")
    middle = _int32(4 + 4 * dimensions) + _int16(dimensions) + _int16(0)
    layout = np.dtype(
        [
            ("head", f"V{len(head)}"),
            ("size", ">i4"),
            ("seq", ">i8"),
            ("middle", f"V{len(middle)}"),
            ("embedding", ">f4", (dimensions,)),
        ]
    )
    rows = np.empty(len(seqs), layout)
    rows["head"] = np.void(head)
    rows["size"] = 8
    rows["seq"] = seqs
    rows["middle"] = np.void(middle)
    rows["embedding"] = vectors
    return rows.tobytes()


def field_vector_row(
    namespace: str, space: str, seq: int, field: str, digest: bytes, vector: NDArray[float32]
) -> bytes:
    """Return a whole row of (namespace, space, field, seq, embedding, digest)."""
    dimensions = len(vector)
    head = columns(6) + text(namespace) + text(space) + text(field) + bigint(seq)
    size = _int32(4 + 4 * dimensions) + _int16(dimensions) + _int16(0)
    return head + size + vector.astype(">f4").tobytes() + bytea(digest)


def document(rows: Iterable[bytes]) -> bytes:
    """Return a whole COPY input."""
    return b"".join((HEADER, *rows, TRAILER))
