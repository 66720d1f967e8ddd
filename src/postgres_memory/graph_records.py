"""What the verbs on relations return: relations as they are read, what they lead to, and contradictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .records import MemoryRecord, MemoryRelationType

INVERSES = {
    MemoryRelationType.CONTRADICTS: MemoryRelationType.CONTRADICTS,
    MemoryRelationType.RELATED: MemoryRelationType.RELATED,
    MemoryRelationType.PRECEDES: MemoryRelationType.FOLLOWS,
    MemoryRelationType.FOLLOWS: MemoryRelationType.PRECEDES,
}
"""The types that say something from the other end too, and what they say there."""

SYMMETRIC = frozenset(kind for kind, inverse in INVERSES.items() if kind is inverse)
"""The types that say the same from both ends."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two memories, as it is read: ``source_id`` ``relation_type`` ``target_id``.

    ``reversed`` says that it is stored the other way round and read backwards: where "b FOLLOWS a" is read,
    "a PRECEDES b" is stored. `stored` gives it as it is in the table.
    """

    source_id: str
    target_id: str
    relation_type: MemoryRelationType
    confidence: float = 1.0
    metadata: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    reversed: bool = False

    @property
    def stored(self) -> Relation:
        """The same relation as it is stored, which is how `unrelate` names it."""
        return self.inverse() if self.reversed else self

    def inverse(self) -> Relation:
        """Return it read from the other end. Raises ValueError for a type that says nothing there."""
        if self.relation_type not in INVERSES:
            raise ValueError(f"{self.relation_type.name} has no inverse")
        return replace(
            self,
            source_id=self.target_id,
            target_id=self.source_id,
            relation_type=INVERSES[self.relation_type],
            reversed=not self.reversed,
        )


@dataclass(frozen=True, slots=True)
class RelatedMemory:
    """A memory that `related` reached, and the best way to it.

    ``depth`` is the number of relations on the way, ``confidence`` the product of their confidences. ``path`` names
    the memories on it, from the one asked about to this one; ``steps`` are the relations between them: each joins one
    memory of the path with the next, and its source may be either of the two. The ``relations`` of the record are left
    out, since a hub may have any number: `relations` and `get` give them.
    """

    record: MemoryRecord
    depth: int
    confidence: float
    path: tuple[str, ...]
    steps: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Related:
    """What `related` found, best first.

    ``truncated`` says that a cap cut the walk short: memories may be missing, and better ways to those that are here.
    ``has_more`` says that the walk reached more memories than the ``limit``.
    """

    items: tuple[RelatedMemory, ...]
    truncated: bool
    has_more: bool


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two memories joined by CONTRADICTS; ``first`` was stored before ``second``.

    ``relations`` are all relations of that type between the two, as they are stored; ``confidence`` is the highest of
    theirs. The records come without the rest of their relations.
    """

    first: MemoryRecord
    second: MemoryRecord
    confidence: float
    relations: tuple[Relation, ...]
