"""What `changes` yields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .records import MemoryRelationType


class ChangeKind(StrEnum):
    """What happened to a memory, or to a relation of it (RELATED, UNRELATED)."""

    ADDED = "added"
    UPDATED = "updated"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    RESTORED = "restored"
    DELETED = "deleted"
    RELATED = "related"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a change feed: what happened to the memory ``id``, and nothing of what is in it.

    ``cursor`` is where a reader goes on that has dealt with this one. ``version`` is the memory's after the change, or
    its last where it was deleted. Of a relation, which has no version, ``id`` is the source, and ``target_id``,
    ``relation_type`` and ``label`` say the rest. ``at`` is when the statement began that made the change.
    """

    cursor: str
    kind: ChangeKind
    namespace: str
    id: str
    version: int | None
    at: datetime
    target_id: str | None = None
    relation_type: MemoryRelationType | None = None
    label: str | None = None
