"""Memories in JSON Lines: ``{"content": …, "metadata": {…}}``, one a line, read one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from .json_input import NotJsonError, parse_json

#: A longer line is bad; no more than this is ever held. Content and metadata have limits of 1 MiB each, and JSON
#: may write one byte as six.
MAX_LINE_BYTES = 16 * 1024 * 1024

BATCH_LINES = 500
BATCH_BYTES = 8 * 1024 * 1024

_KEYS = {"content", "metadata"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that has the right shape; whether its values can be stored is for `store` to say.

    ``number`` counts from 1; ``end`` is the offset behind the line, in bytes.
    """

    number: int
    end: int
    content: Any
    metadata: Any


@dataclass(frozen=True, slots=True)
class BadLine:
    """One line that cannot be a memory, and why."""

    number: int
    end: int
    problem: str


def read_lines(stream: IO[bytes]) -> Iterator[Line | BadLine]:
    """Yield every line but blank ones."""
    end = 0
    for number, (raw, length) in enumerate(_raw_lines(stream), start=1):
        end += length
        text = raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw
        if length > MAX_LINE_BYTES:
            yield BadLine(number, end, f"longer than {MAX_LINE_BYTES} bytes")
        elif text.strip():
            yield _parse(text, number, end)


def in_batches(lines: Iterable[Line | BadLine]) -> Iterator[list[Line | BadLine]]:
    """Group ``lines`` into batches of a bounded number of lines and bytes."""
    batch: list[Line | BadLine] = []
    begin = end = 0
    for line in lines:
        batch.append(line)
        end = line.end
        if len(batch) >= BATCH_LINES or end - begin >= BATCH_BYTES:
            yield batch
            batch, begin = [], end
    if batch:
        yield batch


def _raw_lines(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line and its length; of a line that is too long only the beginning is kept."""
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        length = len(raw)
        part = raw
        while length > MAX_LINE_BYTES and part and not part.endswith(b"\n"):
            part = stream.readline(MAX_LINE_BYTES)
            length += len(part)
        yield raw, length


def _parse(raw: bytes, number: int, end: int) -> Line | BadLine:
    try:
        value = parse_json(raw.decode())
    except UnicodeDecodeError as error:
        return BadLine(number, end, f"not UTF-8 at byte {error.start + 1}")
    except NotJsonError as error:
        return BadLine(number, end, str(error))
    if not isinstance(value, dict):
        return BadLine(number, end, 'must be an object like {"content": "…", "metadata": {…}}')
    if "content" not in value:
        return BadLine(number, end, 'the key "content" is missing')
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        return BadLine(number, end, f"unknown key {unknown[0][:40]!r}; only content and metadata are read")
    return Line(number, end, value["content"], value.get("metadata"))
