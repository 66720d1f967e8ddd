"""Plain lines, ``{"content": …, "metadata": {…}}``: one memory a line, the good ones stored, the others reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..bulk_records import MAX_FAILURES, BulkResult
from .format import BYTE_ORDER_MARK, kind_of_line, refusal
from .reading import Lines
from .strict_json import NotJsonError, parse_line

#: A longer line is bad; no more than this is ever held. Content and metadata have limits of 1 MiB each, and JSON
#: may write one byte as six.
MAX_PLAIN_BYTES = 16 * 1024 * 1024

BATCH_BYTES = 8 * 1024 * 1024

_KEYS = {"content", "metadata"}


@dataclass(frozen=True, slots=True)
class PlainLine:
    """One line that has the right shape; whether its values can be stored is for `add_many` to say.

    ``number`` counts from 1; ``end`` is the offset behind the line, in bytes.
    """

    number: int
    end: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadLine:
    """One line that cannot be a memory, and why."""

    number: int
    end: int
    problem: str


def read_plain(lines: Lines, batch_size: int) -> Iterator[list[PlainLine | BadLine]]:
    """Yield every line but blank ones, in batches of a bounded number of lines and bytes.

    A batch has no more lines than the result of storing it has room for failures.
    """
    most = min(batch_size, MAX_FAILURES)
    batch: list[PlainLine | BadLine] = []
    begin = 0
    for line in _each(lines):
        batch.append(line)
        if len(batch) >= most or line.end - begin >= BATCH_BYTES:
            yield batch
            batch, begin = [], line.end
    if batch:
        yield batch


async def store_plain(
    load: Callable[..., Awaitable[BulkResult]], batch: Iterable[PlainLine | BadLine]
) -> tuple[int, list[BadLine]]:
    """Store the good lines of a batch by ``load``, which is `add_many`; return how many those were, and the bad ones.

    One of the lines may be what refuses the others: those are given again without it.
    """
    bad = [line for line in batch if isinstance(line, BadLine)]
    good = [line for line in batch if isinstance(line, PlainLine)]
    stored = 0
    while good:
        result = await load([line.values for line in good], batch_size=len(good))
        stored += result.stored
        refused = {index: "" for failure in result.failed for index in range(*failure.batch)}
        for failure in result.failed:
            blamed = range(*failure.batch) if failure.index is None else (failure.index,)
            refused |= dict.fromkeys(blamed, failure.reason)
        bad += [
            BadLine(good[index].number, good[index].end, reason)
            for index, reason in refused.items()
            if reason
        ]
        good = [good[index] for index, reason in refused.items() if not reason]
    return stored, sorted(bad, key=lambda line: line.number)


def _each(lines: Lines) -> Iterator[PlainLine | BadLine]:
    number = end = 0
    while raw := lines.read(MAX_PLAIN_BYTES):
        number += 1
        end += len(raw)
        if len(raw) > MAX_PLAIN_BYTES:
            end += _skip(lines, raw)
            yield BadLine(number, end, f"longer than {MAX_PLAIN_BYTES} bytes")
            continue
        text = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
        if kind_of_line(text) is not None:
            raise refusal(number, "is a line of an export, whose header is missing or damaged")
        if text.strip():
            yield _parse(text, number, end)


def _skip(lines: Lines, part: bytes) -> int:
    """Read to the end of a line that is too long, and return how much of it that was."""
    length = 0
    while part and not part.endswith(b"\n"):
        part = lines.read(MAX_PLAIN_BYTES)
        length += len(part)
    return length


def _parse(raw: bytes, number: int, end: int) -> PlainLine | BadLine:
    try:
        value = parse_line(raw)
    except NotJsonError as error:
        return BadLine(number, end, str(error))
    if not isinstance(value, dict):
        return BadLine(number, end, 'must be an object like {"content": "…", "metadata": {…}}')
    if "content" not in value:
        return BadLine(number, end, 'the key "content" is missing')
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        return BadLine(number, end, f"unknown key {unknown[0][:40]!r}; only content and metadata are read")
    return PlainLine(number, end, value)
