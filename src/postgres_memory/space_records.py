"""What the verbs on embedding spaces return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .embedding.protocol import Distance

SpaceStatus = Literal["filling", "active", "retired"]

#: So many failures of one call are kept with their reasons; all are counted.
MAX_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """The embeddings of one embedder in one namespace.

    The ``active`` space is the one that is complete, but for what waits; a ``filling`` one is not searched; a
    ``retired`` one was active before, and is still searched by objects that have its embedder. ``embedded`` memories
    have an embedding in it of each field that the object embeds and they have, ``pending`` ones lack one.
    """

    name: str
    dimensions: int
    distance: Distance
    status: SpaceStatus
    created_at: datetime
    embedded: int
    pending: int


@dataclass(frozen=True, slots=True)
class SpaceIndex:
    """An approximate index of a space: its ``name``, its ``kind`` and options, and the ``type`` it keeps vectors as."""

    name: str
    kind: Literal["hnsw"]
    type: Literal["vector", "halfvec", "bit"]
    m: int
    ef_construction: int


@dataclass(frozen=True, slots=True)
class EmbedFailure:
    """A memory that the embedder refuses, by id, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """What became of the memories that had no embedding in ``space``, or not of all their fields.

    ``embedded`` have one now. ``changed`` were changed, deleted or embedded by others before theirs could be written.
    Of ``failures`` a text was refused by the embedder; ``failed`` says why, of the first 1,000 texts. ``pending`` still
    lack one.
    """

    space: str
    embedded: int
    changed: int
    failures: int
    failed: tuple[EmbedFailure, ...]
    pending: int
