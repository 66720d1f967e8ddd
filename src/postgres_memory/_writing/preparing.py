"""Bulk loading, first half: from what the caller gives to checked, embedded rows. Pure; runs on a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._json import decode_metadata, encode_metadata
from .._validation import check_content, kind_of
from ..bulk_records import BulkFailure
from ..embedding.hashing import hash_counts_many
from ..errors import InvalidInputError, InvalidTypeError
from ..records import MemoryRecord
from .adding import Addition, addition_of

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

_SIMPLE = {"content", "metadata"}


@dataclass(slots=True)
class Simple:
    """A memory of content and metadata alone, the metadata as JSON text."""

    id: str
    content: str
    metadata: str


@dataclass(slots=True)
class Batch:
    """Items ``start`` to ``start + len(items)`` of the input, in order, or why they cannot be stored."""

    start: int
    size: int
    items: list[Simple | Addition] = field(default_factory=list)
    counts: NDArray[int64] | None = None
    failures: list[tuple[int, str]] = field(default_factory=list)

    def failed(self) -> tuple[BulkFailure, ...]:
        """Return the failures as the caller sees them."""
        whole = (self.start, self.start + self.size)
        return tuple(BulkFailure(self.start + position, reason, whole) for position, reason in self.failures)


def prepare(context: Context, start: int, given: Sequence[object]) -> Batch:
    """Check and embed one batch."""
    batch = Batch(start, len(given))
    ids = new_ids(len(given))
    contents: list[str] = []
    for position, item in enumerate(given):
        try:
            prepared = _prepare_item(context, item, ids[position])
        except (InvalidInputError, TypeError) as error:
            batch.failures.append((position, str(error)))
        else:
            batch.items.append(prepared)
            contents.append(content_of(prepared))
    if not batch.failures:
        batch.counts = hash_counts_many(contents)
        _check_embeddings(batch)
    return batch


def _prepare_item(context: Context, item: object, id_: str) -> Simple | Addition:
    if isinstance(item, str):
        return Simple(id_, check_content(item, max_bytes=context.limits.content_bytes), "{}")
    if isinstance(item, MemoryRecord):
        return addition_of(context, item, {})
    if not isinstance(item, Mapping):
        raise InvalidTypeError("item", f"must be a str, a dict or a MemoryRecord, not {kind_of(item)}")
    if "content" not in item:
        raise InvalidTypeError("item", "must have a content")
    if item.keys() <= _SIMPLE:
        content = check_content(item["content"], max_bytes=context.limits.content_bytes)
        return Simple(id_, content, encode_metadata(item.get("metadata")))
    fields: dict[str, Any] = {str(name): value for name, value in item.items()}
    content = fields.pop("content")
    derived_from = fields.pop("derived_from", ())
    return addition_of(context, content, fields, derived_from=derived_from)


def _check_embeddings(batch: Batch) -> None:
    from ..embedding.hashing import normalize

    assert batch.counts is not None
    for position, item in enumerate(batch.items):
        given = item.record.embedding if isinstance(item, Addition) else None
        if given is not None and given != tuple(normalize(batch.counts[position].tolist())):
            batch.failures.append(
                (position, "embedding: is not the hash embedding of the content; leave it out")
            )


def content_of(item: Simple | Addition) -> str:
    """Return the content of a prepared item."""
    return item.content if isinstance(item, Simple) else item.record.content


def id_of(item: Simple | Addition) -> str:
    """Return the id of a prepared item."""
    return item.id if isinstance(item, Simple) else item.record.id


def whole_of(context: Context, item: Simple) -> Addition:
    """Return a simple item as a whole record."""
    metadata = decode_metadata(item.metadata)
    record = MemoryRecord(id=item.id, content=item.content, namespace=context.namespace, metadata=metadata)
    return Addition(record, dated=False, named=False, on_conflict="error", dedupe=None)


def new_ids(count: int) -> list[str]:
    """Return so many UUIDs of version 7 in ascending order: as `new_id`, with one system call for the batch."""
    milliseconds = time.time_ns() // 1_000_000
    random = os.urandom(8 * count)
    ids: list[str] = []
    for position in range(count):
        moment = milliseconds + (position >> 12)  # 4,096 to a millisecond, in place of a finer clock
        bits = int.from_bytes(random[8 * position : 8 * position + 8], "big") & ((1 << 62) - 1)
        digits = f"{(moment << 80) | (0x7 << 76) | ((position & 4095) << 64) | (0b10 << 62) | bits:032x}"
        ids.append(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")
    return ids
