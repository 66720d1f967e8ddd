"""Memory for production agents on PostgreSQL and pgvector. The public names; each loads its module at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from .conversation import ConversationMemory
    from .embedding.hashing import HashEmbedder, hash_embedding
    from .errors import PostgresMemoryError
    from .postgres import MemoryTransaction, PostgresMemory
    from .protocol import Memory, MemoryEntry, Session
    from .session import PostgresSession
    from .vector import VectorMemory

__all__ = [
    "ConversationMemory",
    "HashEmbedder",
    "Memory",
    "MemoryEntry",
    "MemoryTransaction",
    "PostgresMemory",
    "PostgresMemoryError",
    "PostgresSession",
    "Session",
    "VectorMemory",
    "__version__",
    "hash_embedding",
]

_HOMES = {
    "ConversationMemory": "conversation",
    "HashEmbedder": "embedding.hashing",
    "Memory": "protocol",
    "MemoryEntry": "protocol",
    "MemoryTransaction": "postgres",
    "PostgresMemory": "postgres",
    "PostgresMemoryError": "errors",
    "PostgresSession": "session",
    "Session": "protocol",
    "VectorMemory": "vector",
    "hash_embedding": "embedding.hashing",
}


def __getattr__(name: str) -> object:
    """Load a public name at its first use (PEP 562): importing the package costs what importing asyncpg costs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
