"""The seed contracts as the package defines them itself, for where flux-agents is not installed.

They are identical to ``flux.memory.base`` of flux-agents 0.2: same fields, defaults and signatures. Nobody
should import them from here: ``postgres_memory.protocol`` decides which pair of classes is in use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass
class MemoryEntry:
    """What a search found: the content and metadata as stored, and a score, larger being better."""

    content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    score: float = 0.0


@runtime_checkable
class Memory(Protocol):
    """A long-term memory: three methods, which every memory class of the package has."""

    async def search(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """Return at most ``limit`` entries, the best match first."""
        ...

    async def store(self, content: str, metadata: dict[str, Any] | None = None) -> None:
        """Remember one text."""
        ...

    async def clear(self) -> None:
        """Forget everything."""
        ...
