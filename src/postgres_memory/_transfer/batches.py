"""The rows of an export in batches for the database. Pure; runs on a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..embedding.hashing import hash_counts_many
from .decoding import LinkRow, MemoryRow, MessageRow, Row, decode_line
from .format import refusal
from .reading import Export

#: A batch ends before its lines take more than this.
_BATCH_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MemoryBatch:
    """Memories of different ids, as the JSON array that the statement reads; ``size`` counts their lines.

    ``twice`` is an id that more than one line had, if there was one.
    """

    size: int
    rows: tuple[MemoryRow, ...]
    json: str
    twice: str


@dataclass(frozen=True, slots=True)
class LinkBatch:
    """Relations, or which memory replaced which: ``kind`` says."""

    size: int
    kind: str
    rows: tuple[LinkRow, ...]


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages, those of one session together."""

    size: int
    rows: tuple[MessageRow, ...]


Batch = MemoryBatch | LinkBatch | MessageBatch


def read_batches(
    export: Export, *, batch_size: int, content_bytes: int, last_counts: bool
) -> Iterator[Batch]:
    """Yield the batches of an export, each of one kind. Raises InvalidValueError for the first line that is wrong.

    Of memories with the same id in a batch only the first is taken, or the last if ``last_counts``.
    """
    rows: list[Row] = []
    current, size, session = "", 0, ""
    for number, kind, line in export:
        if rows and (kind != current or len(rows) >= batch_size or size + len(line) > _BATCH_BYTES):
            yield _batch(current, rows, last_counts)
            rows, size = [], 0
        row = decode_line(kind, number, line, content_bytes)
        if isinstance(row, MessageRow):
            # What becomes of a session is decided once, so that its messages must be together.
            if row.session_id < session:
                raise refusal(number, "is a message of a session that belongs before the one above it")
            session = row.session_id
        rows.append(row)
        current, size = kind, size + len(line)
    if rows:
        yield _batch(current, rows, last_counts)


def json_array(fields: Sequence[str]) -> str:
    """Return a JSON array of objects of these fields, each with its position."""
    objects = (f'{{"position":{position},{text}}}' for position, text in enumerate(fields))
    return f"[{','.join(objects)}]"


def _batch(kind: str, rows: list[Row], last_counts: bool) -> Batch:
    size = len(rows)
    if kind == "memory":
        return _memories([row for row in rows if isinstance(row, MemoryRow)], last_counts)
    if kind == "message":
        return MessageBatch(size, tuple(row for row in rows if isinstance(row, MessageRow)))
    # Of two with the same key the last counts, as it does where they are further apart.
    links = {row.key: row for row in rows if isinstance(row, LinkRow)}
    return LinkBatch(size, kind, tuple(links.values()))


def _memories(rows: list[MemoryRow], last_counts: bool) -> MemoryBatch:
    chosen: dict[str, MemoryRow] = {}
    twice = ""
    for row in rows:
        if row.id in chosen:
            twice = row.id
        if last_counts or row.id not in chosen:
            chosen[row.id] = row
    counts = hash_counts_many([row.content for row in chosen.values()]).tolist()
    fields = [f'"counts":{count},{row.fields}' for count, row in zip(counts, chosen.values(), strict=True)]
    return MemoryBatch(len(rows), tuple(chosen.values()), json_array(fields), twice)
