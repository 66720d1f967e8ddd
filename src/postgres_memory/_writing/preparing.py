"""Bulk loading, first half: from what the caller gives to checked, embedded rows. Pure; runs on a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._json import encode_metadata, encode_plain
from .._validation import check_content, kind_of
from ..embedding.hashing import hash_counts_many
from ..errors import InvalidInputError, InvalidTypeError
from ..records import MemoryRecord
from . import copy_format as copy
from .adding import Addition, addition_of
from .thread import thread_of

if TYPE_CHECKING:
    from numpy import bytes_, int64
    from numpy.typing import NDArray

    from ..embedding.vectors import Vectors
    from .embedding import FieldVector

_ID_LENGTH = 36
#: Items prepared before the event loop gets its turn; it would wait 5 ms for the interpreter's lock.
_TURN = 128
_PAUSE = 1e-6
#: What an item says that is written in the fewest steps.
_PLAIN = {"content", "metadata"}
_NO_METADATA: dict[str, Any] = {}
_TEXTS = frozenset({str})
_SHORT = 1 << 18


@dataclass(frozen=True, slots=True)
class Numbers:
    """What new rows are given: numbers of the insertion order, time, language, the next place of each thread."""

    seqs: list[int]
    now: datetime
    language: str
    places: dict[str, int]


@dataclass(slots=True)
class Batch:
    """Items ``start`` to ``start + size`` of the input, checked, or why they cannot be stored.

    An item of content and metadata alone is in ``simple``: its position, and the end of its row as COPY takes it.
    Every other one is in ``whole``. What belongs to an item is found by its position. ``numbers`` are those of the
    insertion order, with what else the database says of the rows, if they were taken beforehand. ``contents`` are kept
    until they are embedded, and ``vectors`` are what came of it; ``texts`` are strings of the metadata that are
    embedded as well, by position and field, and ``text_vectors`` what came of them.
    """

    start: int
    size: int
    deduped: bool
    ids: NDArray[bytes_]
    simple: dict[int, bytes] = field(default_factory=dict)
    whole: dict[int, Addition] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)
    counts: NDArray[int64] | None = None
    contents: list[str] = field(default_factory=list)
    vectors: Vectors | None = None
    texts: dict[int, dict[str, str]] = field(default_factory=dict)
    text_vectors: dict[int, list[FieldVector]] = field(default_factory=dict)
    numbers: Numbers | None = None
    failures: list[tuple[int, str]] = field(default_factory=list)

    @property
    def meets_nothing(self) -> bool:
        """Whether nothing that is there, or is being written, can be in the way of these memories."""
        return not self.whole and not self.deduped

    def id_of(self, position: int) -> str:
        """Return the id of an item: its own, or the one made for it."""
        item = self.whole.get(position)
        if item is not None:
            return item.record.id
        made: bytes = self.ids[position]
        return made.decode()


def prepare(context: Context, start: int, given: list[object], *, deduped: bool) -> Batch:
    """Check and embed one batch. ``given`` is empty afterwards: what is held twice would double the space."""
    batch = Batch(start, len(given), deduped, new_ids(len(given)))
    contents: list[str] = []
    given.reverse()
    for position in range(0, batch.size, _TURN):
        time.sleep(_PAUSE)
        some = given[: -_TURN - 1 : -1]
        del given[-_TURN:]
        contents += _prepare_plain(context, batch, position, some) or _prepare_each(
            context, batch, position, some
        )
    if not batch.failures:
        batch.counts = hash_counts_many(contents)
        _check_embeddings(batch)
    if not batch.failures and context.embedder is not None:
        batch.contents = contents
    else:
        batch.texts.clear()
    return batch


def _prepare_plain(context: Context, batch: Batch, start: int, items: list[Any]) -> list[str] | None:
    """Put items of content and metadata alone into the batch, all at once, and return their contents.

    None where one of them may be anything else, or wrong: nothing is put there then.
    """
    if batch.deduped or context.principal is not None or context.thread_field is not None:
        return None
    if context.fields.paths and context.embedder is not None:
        return None
    contents, metadata = [], []
    for item in items:
        if type(item) is str:
            contents.append(item)
            metadata.append(_NO_METADATA)
        elif type(item) is dict and "content" in item and item.keys() <= _PLAIN:
            contents.append(item["content"])
            given = item.get("metadata")
            metadata.append(_NO_METADATA if given is None else given)
        else:
            return None
    texts = _encoded(contents, context.limits.content_bytes)
    documents = None if texts is None else encode_plain(metadata)
    if texts is None or documents is None:
        return None
    ends = map(copy.content_and_metadata, texts, documents)
    batch.simple.update(zip(range(start, start + len(items)), ends, strict=True))
    return contents


def _encoded(contents: list[Any], max_bytes: int) -> list[bytes] | None:
    """Return the contents in UTF-8, if nothing is wrong with any, and they are short enough to be held twice."""
    if not _TEXTS.issuperset(map(type, contents)) or sum(map(len, contents)) > _SHORT:
        return None
    try:
        texts = "\0".join(contents).encode().split(b"\0")
    except UnicodeEncodeError:
        return None
    # One that holds a NUL falls into two.
    return texts if len(texts) == len(contents) and max(map(len, texts)) <= max_bytes else None


def _prepare_each(context: Context, batch: Batch, start: int, items: list[object]) -> list[str]:
    """Put the items into the batch one by one, or why they cannot be stored; return the contents of the others."""
    contents = []
    for position, item in enumerate(items, start):
        try:
            contents.append(_prepare_item(context, batch, position, item))
        except (InvalidInputError, TypeError) as error:
            batch.failures.append((position, str(error)))
    return contents


def _prepare_item(context: Context, batch: Batch, position: int, item: object) -> str:
    """Put an item into the batch and return its content."""
    if isinstance(item, str):
        if context.principal is not None:
            return _prepare_fields(context, batch, position, {"content": item})
        return _prepare_simple(context, batch, position, item, None)
    if isinstance(item, dict):  # before the look at Mapping, which takes ten times as long
        return _prepare_fields(context, batch, position, item)
    if isinstance(item, MemoryRecord):
        return _prepare_whole(context, batch, position, addition_of(context, item, {}))
    if isinstance(item, Mapping):
        return _prepare_fields(context, batch, position, item)
    raise InvalidTypeError("item", f"must be a str, a dict or a MemoryRecord, not {kind_of(item)}")


def _prepare_fields(context: Context, batch: Batch, position: int, item: Mapping[Any, Any]) -> str:
    if "content" not in item:
        raise InvalidTypeError("item", "must have a content")
    simple = len(item) == 1 or (len(item) == 2 and "metadata" in item)
    if simple and context.principal is None and thread_of(context, item.get("metadata")) is None:
        return _prepare_simple(context, batch, position, item["content"], item.get("metadata"))
    fields: dict[str, Any] = {str(name): value for name, value in item.items()}
    content = fields.pop("content")
    derived_from = fields.pop("derived_from", ())
    whole = addition_of(context, content, fields, derived_from=derived_from)
    return _prepare_whole(context, batch, position, whole)


def _prepare_simple(context: Context, batch: Batch, position: int, content: Any, metadata: Any) -> str:
    checked = check_content(content, max_bytes=context.limits.content_bytes)
    end = copy.content_and_metadata(checked.encode(), encode_metadata(metadata).encode())
    _take_texts(context, batch, position, metadata)
    if batch.deduped:
        batch.keys[position] = key = content_key(context.owner, checked)
        end += copy.bytea(key)
    batch.simple[position] = end
    return checked


def _prepare_whole(context: Context, batch: Batch, position: int, item: Addition) -> str:
    batch.whole[position] = item
    _take_texts(context, batch, position, item.record.metadata)
    if batch.deduped:
        batch.keys[position] = key_of(item)
    return item.record.content


def _take_texts(context: Context, batch: Batch, position: int, metadata: Mapping[str, Any] | None) -> None:
    if context.fields.paths and context.embedder is not None:
        texts = context.fields.strings(metadata)
        if texts:
            batch.texts[position] = texts


def key_of(item: Addition) -> bytes:
    """Return the content key of a whole memory."""
    return content_key(item.record.permissions.owner, item.record.content)


def content_key(owner: str, content: str) -> bytes:
    """Return what `_sql.keys.content_key` gives: COPY computes nothing, so that the key is made here."""
    return sha256(b"%b\0%b" % (owner.encode(), content.encode())).digest()


def _check_embeddings(batch: Batch) -> None:
    from ..embedding.hashing import normalize

    assert batch.counts is not None
    for position, item in batch.whole.items():
        given = item.record.embedding
        if given is not None and given != tuple(normalize(batch.counts[position].tolist())):
            batch.failures.append(
                (position, "embedding: is not the hash embedding of the content; leave it out")
            )


def new_ids(count: int) -> NDArray[bytes_]:
    """Return so many UUIDs of version 7 in ascending order: as `new_id`, but all at once."""
    import numpy as np

    milliseconds = time.time_ns() // 1_000_000
    order = np.arange(count, dtype=np.uint64)
    words = np.empty((count, 2), ">u8")
    # 4,096 to a millisecond, in place of a finer clock.
    moments = np.uint64(milliseconds) + (order >> np.uint64(12))
    words[:, 0] = (moments << np.uint64(16)) | np.uint64(0x7000) | (order & np.uint64(4095))
    random = np.frombuffer(os.urandom(8 * count), ">u8")
    words[:, 1] = (random & np.uint64((1 << 62) - 1)) | np.uint64(0b10 << 62)
    digits = np.frombuffer(words.tobytes().hex().encode(), np.uint8).reshape(count, 32)
    texts = np.full((count, _ID_LENGTH), ord("-"), np.uint8)
    for into, out_of, length in ((0, 0, 8), (9, 8, 4), (14, 12, 4), (19, 16, 4), (24, 20, 12)):
        texts[:, into : into + length] = digits[:, out_of : out_of + length]
    return texts.reshape(-1).view(f"S{_ID_LENGTH}")
