"""The whole memory, as frozen data: the record, its relations and permissions, and what the verbs return.

Every value is checked when an object is made, so that one that exists can be stored. Times are aware and in UTC; a
naive datetime is taken as local time, as Python itself does. Lists are taken as tuples, enum values also by their
string.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from ._record_checks import (
    check_array,
    check_array_of,
    check_embedding,
    check_enum,
    check_fraction,
    check_label,
    check_mapping,
    check_optional_key,
    check_time,
)
from ._validation import (
    HARD_MAX_CONTENT_BYTES,
    check_content,
    check_count,
    check_id,
    check_key,
    check_namespace,
    check_positive,
)
from .errors import InvalidTypeError, InvalidValueError
from .ids import new_id, now


class MemoryType(StrEnum):
    """What a memory is: of one session, lasting, or made from other memories."""

    SESSION = "session"
    PERSISTENT = "persistent"
    SYNTHETIC = "synthetic"


class MemoryStatus(StrEnum):
    """Whether a memory counts: active, replaced by a newer one, or put away."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"


class MemoryRelationType(StrEnum):
    """How one memory stands to another.

    PRECEDES and FOLLOWS are each other's inverse; CONTRADICTS and RELATED are symmetric.
    """

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    EXTENDS = "extends"
    PRECEDES = "precedes"
    FOLLOWS = "follows"
    RELATED = "related"


@dataclass(frozen=True, slots=True)
class MemoryPermissions:
    """Who may read and write a memory: its owner both, ``readers`` read, ``writers`` both; ``"*"`` is everyone."""

    owner: str = "system"
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _set(self, "owner", check_key(self.owner, "permissions.owner"))
        _set(self, "readers", check_array(self.readers, "permissions.readers"))
        _set(self, "writers", check_array(self.writers, "permissions.writers"))


@dataclass(frozen=True, slots=True)
class MemoryRelation:
    """A typed edge from the memory that holds it to ``target_id``.

    ``label`` is free text of at most 255 bytes for vocabularies richer than the six types; one memory may have several
    relations of a type to a target if their labels differ.
    """

    target_id: str
    relation_type: MemoryRelationType
    confidence: float = 1.0
    metadata: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        _set(self, "target_id", check_id(self.target_id, "relation.target_id"))
        _set(
            self,
            "relation_type",
            check_enum(self.relation_type, MemoryRelationType, "relation.relation_type"),
        )
        _set(self, "confidence", check_fraction(self.confidence, "relation.confidence"))
        _set(self, "metadata", check_mapping(self.metadata, "relation.metadata"))
        _set(self, "label", check_label(self.label, "relation.label"))


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One memory with everything kept about it.

    The database sets ``updated_at``, ``version``, ``last_accessed`` and ``access_count``; a record that was not stored
    holds their first values. ``embedding`` is the hash embedding, 32 float4 values, None before it was computed.
    ``relations`` are those that start here, in the order of type, label and target. ``supersedes`` is the id of the
    memory this one replaced.
    """

    id: str = field(default_factory=new_id)
    content: str = ""
    namespace: str = "default"
    memory_type: MemoryType = MemoryType.PERSISTENT
    status: MemoryStatus = MemoryStatus.ACTIVE
    created_at: datetime = field(default_factory=now)
    updated_at: datetime | None = None
    last_accessed: datetime | None = None
    access_count: int = 0
    embedding: tuple[float, ...] | None = None
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    confidence: float = 1.0
    metadata: dict[str, Any] = field(default_factory=dict)
    relations: tuple[MemoryRelation, ...] = ()
    permissions: MemoryPermissions = field(default_factory=MemoryPermissions)
    thread_id: str | None = None
    session_id: str | None = None
    expires_at: datetime | None = None
    supersedes: str | None = None
    version: int = 1

    def __post_init__(self) -> None:
        _set(self, "id", check_id(self.id))
        _set(self, "content", check_content(self.content, max_bytes=HARD_MAX_CONTENT_BYTES))
        _set(self, "namespace", check_namespace(self.namespace))
        _set(self, "memory_type", check_enum(self.memory_type, MemoryType, "memory_type"))
        _set(self, "status", check_enum(self.status, MemoryStatus, "status"))
        for name in ("created_at", "updated_at", "last_accessed", "expires_at"):
            _set(self, name, check_time(getattr(self, name), name))
        if self.created_at is None:
            raise InvalidTypeError("created_at", "must be a datetime, not None")
        _set(self, "access_count", check_count(self.access_count, "access_count"))
        _set(self, "version", check_positive(self.version, "version"))
        _set(self, "embedding", check_embedding(self.embedding))
        _set(self, "tags", check_array(self.tags, "tags"))
        _set(self, "importance", check_fraction(self.importance, "importance"))
        _set(self, "confidence", check_fraction(self.confidence, "confidence"))
        _set(self, "metadata", check_mapping(self.metadata, "metadata"))
        _set(self, "relations", _sorted(check_array_of(self.relations, MemoryRelation, "relations")))
        if not isinstance(self.permissions, MemoryPermissions):
            raise InvalidTypeError("permissions", "must be a MemoryPermissions")
        for name in ("thread_id", "session_id", "supersedes"):
            _set(self, name, check_optional_key(getattr(self, name), name))


def record_from_values(*values: object) -> MemoryRecord:
    """Return a record of values that were checked before, such as a row of the database, in the order of its fields."""
    record = object.__new__(MemoryRecord)
    for put, value in zip(_RECORD_SLOTS, values, strict=True):
        put(record, value)
    return record


def relation_from_values(
    target_id: str,
    relation_type: MemoryRelationType,
    confidence: float,
    metadata: dict[str, Any],
    label: str,
) -> MemoryRelation:
    """Return a relation of values that were checked before."""
    relation = object.__new__(MemoryRelation)
    _put_target_id(relation, target_id)
    _put_relation_type(relation, relation_type)
    _put_confidence(relation, confidence)
    _put_metadata(relation, metadata)
    _put_label(relation, label)
    return relation


#: What puts a value into the slot of each field, which costs a quarter of setting it by its name.
_RECORD_SLOTS = tuple(getattr(MemoryRecord, item.name).__set__ for item in fields(MemoryRecord))
#: One by one, since a record may have many relations, and a loop over five takes three times as long.
_put_target_id, _put_relation_type, _put_confidence, _put_metadata, _put_label = (
    getattr(MemoryRelation, item.name).__set__ for item in fields(MemoryRelation)
)


@lru_cache(maxsize=1024)
def permissions_of(owner: str, readers: tuple[str, ...], writers: tuple[str, ...]) -> MemoryPermissions:
    """Return permissions, those that many memories have checked once."""
    return MemoryPermissions(owner, readers, writers)


def relation_key(relation: MemoryRelation) -> tuple[str, str, str]:
    """Return what tells one relation of a memory from another."""
    return relation.relation_type.value, relation.label, relation.target_id


def _sorted(relations: tuple[MemoryRelation, ...]) -> tuple[MemoryRelation, ...]:
    keys = [relation_key(relation) for relation in relations]
    if len(set(keys)) < len(keys):
        raise InvalidValueError("relations", "must not hold two of the same type, label and target")
    return tuple(sorted(relations, key=relation_key))


def _set(instance: object, name: str, value: object) -> None:
    """Put the checked value in place of the given one; the only way into a frozen object."""
    object.__setattr__(instance, name, value)
