"""Memory for production agents on PostgreSQL and pgvector. The public names; each loads its module at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from ._recall.verify import Difference, Verification
    from ._writing.purge import Purged
    from .bulk_records import (
        BulkFailure,
        BulkResult,
        Erased,
        ExportResult,
        ImportFailure,
        ImportResult,
        SourceFailure,
        SourceResult,
    )
    from .change_records import Change, ChangeKind
    from .conversation import ConversationMemory
    from .doctor_records import (
        DayCount,
        Diagnosis,
        Finding,
        IndexSize,
        MemoryCount,
        Repair,
        Stats,
        TableSize,
    )
    from .embedding.caching import CachedEmbedder
    from .embedding.hashing import HashEmbedder, hash_embedding
    from .embedding.protocol import Embedder
    from .errors import PostgresMemoryError
    from .filters import Filter, field
    from .graph_records import Contradiction, Related, RelatedMemory, Relation
    from .listing_records import Health, Isolation, NamespaceInfo, Page
    from .postgres import MemoryTransaction, MemoryWithin, PostgresMemory, PrincipalMemory
    from .protocol import Memory, MemoryEntry, Session
    from .ranking import Ranking
    from .recall_records import Hit, Hits, KnownWords
    from .records import (
        MemoryPermissions,
        MemoryRecord,
        MemoryRelation,
        MemoryRelationType,
        MemoryStatus,
        MemoryType,
    )
    from .session import PostgresSession
    from .space_records import EmbeddingSpace, EmbedFailure, EmbedResult, SpaceIndex
    from .sync import SyncPostgresMemory, SyncPostgresSession
    from .vector import VectorMemory

__all__ = [
    "BulkFailure",
    "BulkResult",
    "CachedEmbedder",
    "Change",
    "ChangeKind",
    "Contradiction",
    "ConversationMemory",
    "DayCount",
    "Diagnosis",
    "Difference",
    "EmbedFailure",
    "EmbedResult",
    "Embedder",
    "EmbeddingSpace",
    "Erased",
    "ExportResult",
    "Filter",
    "Finding",
    "HashEmbedder",
    "Health",
    "Hit",
    "Hits",
    "ImportFailure",
    "ImportResult",
    "IndexSize",
    "Isolation",
    "KnownWords",
    "Memory",
    "MemoryCount",
    "MemoryEntry",
    "MemoryPermissions",
    "MemoryRecord",
    "MemoryRelation",
    "MemoryRelationType",
    "MemoryStatus",
    "MemoryTransaction",
    "MemoryType",
    "MemoryWithin",
    "NamespaceInfo",
    "Page",
    "PostgresMemory",
    "PostgresMemoryError",
    "PostgresSession",
    "PrincipalMemory",
    "Purged",
    "Ranking",
    "Related",
    "RelatedMemory",
    "Relation",
    "Repair",
    "Session",
    "SourceFailure",
    "SourceResult",
    "SpaceIndex",
    "Stats",
    "SyncPostgresMemory",
    "SyncPostgresSession",
    "TableSize",
    "VectorMemory",
    "Verification",
    "__version__",
    "field",
    "hash_embedding",
]

_HOMES = {
    "BulkFailure": "bulk_records",
    "BulkResult": "bulk_records",
    "CachedEmbedder": "embedding.caching",
    "Change": "change_records",
    "ChangeKind": "change_records",
    "Contradiction": "graph_records",
    "ConversationMemory": "conversation",
    "DayCount": "doctor_records",
    "Diagnosis": "doctor_records",
    "Difference": "_recall.verify",
    "EmbedFailure": "space_records",
    "EmbedResult": "space_records",
    "Embedder": "embedding.protocol",
    "EmbeddingSpace": "space_records",
    "Erased": "bulk_records",
    "ExportResult": "bulk_records",
    "Filter": "filters",
    "Finding": "doctor_records",
    "HashEmbedder": "embedding.hashing",
    "Health": "listing_records",
    "Hit": "recall_records",
    "Hits": "recall_records",
    "ImportFailure": "bulk_records",
    "ImportResult": "bulk_records",
    "IndexSize": "doctor_records",
    "Isolation": "listing_records",
    "KnownWords": "recall_records",
    "Memory": "protocol",
    "MemoryCount": "doctor_records",
    "MemoryEntry": "protocol",
    "MemoryPermissions": "records",
    "MemoryRecord": "records",
    "MemoryRelation": "records",
    "MemoryRelationType": "records",
    "MemoryStatus": "records",
    "MemoryTransaction": "postgres",
    "MemoryType": "records",
    "MemoryWithin": "postgres",
    "NamespaceInfo": "listing_records",
    "Page": "listing_records",
    "PostgresMemory": "postgres",
    "PostgresMemoryError": "errors",
    "PostgresSession": "session",
    "PrincipalMemory": "postgres",
    "Purged": "_writing.purge",
    "Ranking": "ranking",
    "Related": "graph_records",
    "RelatedMemory": "graph_records",
    "Relation": "graph_records",
    "Repair": "doctor_records",
    "Session": "protocol",
    "SourceFailure": "bulk_records",
    "SourceResult": "bulk_records",
    "SpaceIndex": "space_records",
    "Stats": "doctor_records",
    "SyncPostgresMemory": "sync",
    "SyncPostgresSession": "sync",
    "TableSize": "doctor_records",
    "VectorMemory": "vector",
    "Verification": "_recall.verify",
    "field": "filters",
    "hash_embedding": "embedding.hashing",
}


def __getattr__(name: str) -> object:
    """Load a public name at its first use (PEP 562): importing the package costs what importing asyncpg costs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
