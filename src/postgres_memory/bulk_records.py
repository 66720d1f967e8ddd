"""What verbs on many memories return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_FAILURES = 1000
"""How many failures a result holds; more are only counted, so that a long input that is wrong fills no memory."""


@dataclass(frozen=True, slots=True)
class BulkFailure:
    """Why one item was not stored: its ``index`` in the input, from 0, and the ``reason`` in words.

    ``index`` is None where the database refused a whole batch without saying for which item; ``batch`` is the range of
    indexes that were not stored because of it, its end excluded.
    """

    index: int | None
    reason: str
    batch: tuple[int, int]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """How many memories were ``stored`` (updated ones included) and ``ignored`` as conflicts, and the ``failed`` items.

    A batch with a failed item is not stored at all: ``not_stored`` counts every item of such batches. ``failures``
    counts all that failed, of which ``failed`` holds the first 1,000.
    """

    stored: int = 0
    ignored: int = 0
    not_stored: int = 0
    failed: tuple[BulkFailure, ...] = ()
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows of each kind were deleted; ``access_lists`` counts those from which a principal was taken."""

    memories: int = 0
    relations: int = 0
    accesses: int = 0
    hash_embeddings: int = 0
    embeddings: int = 0
    messages: int = 0
    idempotency_keys: int = 0
    known_words: int = 0
    settings: int = 0
    spaces: int = 0
    write_tokens: int = 0
    access_lists: int = 0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export holds: how many ``memories``, ``relations`` and session ``messages``; its ``size`` in bytes.

    ``sha256`` is the checksum that its last line repeats, over every byte before that line.
    """

    memories: int
    relations: int
    messages: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """Why one plain line was not stored: its number, from 1, and the ``reason`` in words."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many memories were ``stored`` (updated ones included) and ``ignored`` because they were there already.

    Of an export also the ``relations`` and session ``messages`` written, and those ignored: relations of ignored
    memories or to them, messages of sessions that were there. Of plain lines the ``failed`` ones: ``failures`` counts
    all of them, ``failed`` holds the first 1,000.
    """

    stored: int = 0
    ignored: int = 0
    relations: int = 0
    relations_ignored: int = 0
    messages: int = 0
    messages_ignored: int = 0
    failed: tuple[ImportFailure, ...] = ()
    failures: int = 0


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """Why one thing of a source was not stored: its ``place`` there, and the ``reason`` in words."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What became of everything that was ``read`` in a source; these counts add up to it.

    ``stored`` memories (updated ones included) and ``ignored`` ones, which were there already; ``relations`` and
    ``relations_ignored`` likewise; ``skipped``, by reason, what is no memory; ``failures``, what should have been
    one, of which ``failed`` holds the first 1,000. Of a dry run they say what would become of it.
    """

    read: int = 0
    stored: int = 0
    ignored: int = 0
    relations: int = 0
    relations_ignored: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[SourceFailure, ...] = ()
    failures: int = 0
