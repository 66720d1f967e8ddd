"""What `recall` returns: hits, best first, and what is to be said about all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .records import MemoryRecord


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found: its ``record``, its ``score``, and with ``explain`` the ``parts`` that add up to it.

    Where an object embeds other fields than the content alone, ``explain`` also says in ``field`` which one of this
    memory is nearest to the query: ``"content"`` or, as ``"metadata.facts[2]"``, a string of its metadata. It is None
    if none of them has a vector.
    """

    record: MemoryRecord
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    field: str | None = None


@dataclass(frozen=True, slots=True)
class KnownWords:
    """How many ``words`` a namespace is known to hold now, how many of them were ``added``, and how many are ``gone``.

    They replace misspelt words of a query only where they are ``comparable``: where the database has pg_trgm.
    """

    words: int
    added: int
    gone: int
    comparable: bool


class Hits(list[Hit]):
    """The hits of one recall, best first.

    ``plan`` says how they were found, and what was left out and why, a sentence each.
    """

    def __init__(self, hits: Iterable[Hit] = (), plan: tuple[str, ...] = ()) -> None:
        super().__init__(hits)
        self.plan = plan
