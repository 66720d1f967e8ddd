# Written by scripts/make_sync_stub.py from the asynchronous classes. Do not edit.

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Self, Unpack

from ._access import AccessTracking
from ._recall.after import Reranker
from ._recall.find import Order
from ._recall.verify import Verification
from ._relation_reading import Direction
from ._spaces.create_index import IndexKind
from ._sql.space_index import IndexType
from ._transfer.opening import SourceKind
from ._transfer.reading import Stream
from ._writing.adding import Dedupe, OnConflict
from ._writing.purge import Purged
from ._writing.update import MetadataMode
from .bulk_records import BulkResult, Erased, ExportResult, ImportResult, SourceFailure, SourceResult
from .change_records import Change
from .doctor_records import Diagnosis, Stats
from .embedding.accepting import AnyEmbedder
from .embedding.protocol import Distance
from .filters import Filter
from .graph_records import Contradiction, Related, Relation
from .listing_records import Health, Isolation, NamespaceInfo, Page
from .postgres import PostgresMemory
from .protocol import MemoryEntry
from .ranking import Preset, Ranking
from .recall_records import Hits, KnownWords
from .records import MemoryRecord, MemoryRelationType
from .space_records import EmbeddingSpace, EmbedResult, SpaceIndex
from .verbs.record_verbs import RecordChanges, RecordFields

class _ProtocolVerbs:
    def search(self, query: str, limit: int = 5) -> list[MemoryEntry]: ...
    def store(self, content: str, metadata: dict[str, Any] | None = None) -> None: ...
    def clear(self) -> None: ...

class _RecallVerbs:
    def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        filter: Filter | Mapping[str, Any] | None = None,
        ranking: Ranking | Preset = "hybrid",
        min_score: float | None = None,
        exact: bool = False,
        as_of: datetime | None = None,
        explain: bool = False,
        reranker: Reranker | None = None,
        diversity: float = 0.0,
    ) -> Hits: ...
    def set_language(self, language: str) -> int: ...
    def refresh_words(self) -> KnownWords: ...

class _RecordVerbs:
    def add(
        self,
        content: str | MemoryRecord,
        *,
        derived_from: Iterable[str] = (),
        on_conflict: OnConflict = "error",
        dedupe: Dedupe | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[RecordFields],
    ) -> MemoryRecord: ...
    def get(self, id: str) -> MemoryRecord: ...
    def get_many(self, ids: Iterable[str]) -> list[MemoryRecord | None]: ...
    def update(
        self,
        id: str,
        *,
        expected_version: int | None = None,
        metadata_mode: MetadataMode | None = None,
        **changes: Unpack[RecordChanges],
    ) -> MemoryRecord: ...
    def delete(self, id: str) -> bool: ...

class _RelationVerbs:
    def relate(
        self,
        source: str,
        target: str,
        type: MemoryRelationType | str,
        *,
        label: str = "",
        confidence: float = 1.0,
        metadata: dict[str, Any] | None = None,
    ) -> Relation: ...
    def unrelate(
        self, source: str, target: str, type: MemoryRelationType | str, *, label: str = ""
    ) -> bool: ...
    def relations(
        self,
        id: str,
        *,
        direction: Direction = "out",
        types: Iterable[MemoryRelationType | str] | None = None,
    ) -> list[Relation]: ...
    def related(
        self,
        id: str,
        *,
        types: Iterable[MemoryRelationType | str] | None = None,
        direction: Direction = "out",
        max_depth: int = 2,
        min_confidence: float = 0.0,
        limit: int = 50,
        max_fan_out: int = 200,
        max_visits: int = 10000,
        include_inactive: bool = False,
    ) -> Related: ...
    def contradictions(
        self, filter: Filter | Mapping[str, Any] | None = None, *, limit: int | None = None
    ) -> list[Contradiction]: ...

class _LifecycleVerbs:
    def supersede(
        self,
        old_id: str,
        new: str | MemoryRecord,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[RecordFields],
    ) -> MemoryRecord: ...
    def restore(self, id: str) -> MemoryRecord: ...
    def history(self, id: str) -> list[MemoryRecord]: ...
    def archive(self, id: str) -> MemoryRecord: ...
    def purge_expired(
        self, *, batch_size: int = 1000, progress: Callable[[Purged], None] | None = None
    ) -> Purged: ...

class _ListingVerbs:
    def find(
        self,
        *,
        filter: Filter | Mapping[str, Any] | None = None,
        order_by: Order = "-created_at",
        limit: int = 50,
        cursor: str | None = None,
        include_inactive: bool = False,
    ) -> Page[MemoryRecord]: ...
    def count(
        self, filter: Filter | Mapping[str, Any] | None = None, *, include_inactive: bool = False
    ) -> int: ...
    def delete_many(self, filter: Filter | Mapping[str, Any] | None, *, all: bool = False) -> int: ...
    def namespaces(self, *, counts: bool = False) -> list[NamespaceInfo]: ...
    def health(self) -> Health: ...
    def create_metadata_index(self, *, progress: Callable[[str, int, int], object] | None = None) -> bool: ...
    def drop_metadata_index(self) -> bool: ...

class _BulkVerbs:
    def add_many(
        self,
        items: Iterable[str | dict[str, Any] | MemoryRecord],
        *,
        batch_size: int = 5000,
        on_conflict: OnConflict = "error",
        dedupe: Dedupe | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> BulkResult: ...
    def export(
        self,
        target: str | PathLike[str] | Stream,
        *,
        session_messages: bool = True,
        progress: Callable[[int, int | None], object] | None = None,
    ) -> ExportResult: ...
    def import_(
        self,
        source: str | PathLike[str] | Stream,
        *,
        on_conflict: OnConflict = "error",
        batch_size: int = 1000,
        progress: Callable[[int, int | None], object] | None = None,
    ) -> ImportResult: ...
    def import_from(
        self,
        kind: SourceKind,
        source: str | PathLike[str] | None = None,
        *,
        table: str | None = None,
        source_schema: str = "public",
        only: Mapping[str, str] | None = None,
        content_field: str | None = None,
        fields: Mapping[str, str] | None = None,
        id_prefix: str | None = None,
        on_conflict: OnConflict = "ignore",
        dry_run: bool = False,
        batch_size: int = 500,
        progress: Callable[[int], object] | None = None,
        on_failure: Callable[[SourceFailure], object] | None = None,
    ) -> SourceResult: ...

class _SpaceVerbs:
    def embed_pending(
        self,
        *,
        batch_size: int = 100,
        limit: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> EmbedResult: ...
    def reembed(
        self,
        space: str,
        *,
        embedder: AnyEmbedder | None = None,
        distance: Distance = "cosine",
        batch_size: int = 100,
        rate: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> EmbedResult: ...
    def switch_space(self, space: str, *, max_pending: int = 1000) -> None: ...
    def drop_space(self, space: str, *, batch_size: int = 10000) -> int: ...
    def spaces(self) -> list[EmbeddingSpace]: ...
    def create_index(
        self,
        space: str,
        *,
        kind: IndexKind = "hnsw",
        type: IndexType | None = None,
        m: int = 16,
        ef_construction: int = 64,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> SpaceIndex: ...
    def drop_index(self, space: str) -> bool: ...

class _OperationVerbs:
    def doctor(self, *, repair: bool = False) -> Diagnosis: ...
    def stats(self, *, all_namespaces: bool = False, days: int = 30) -> Stats: ...
    def verify(
        self,
        *,
        all_namespaces: bool = False,
        batch_size: int = 500,
        progress: Callable[[int, int], object] | None = None,
    ) -> Verification: ...
    def erase(
        self,
        namespace: str | None = None,
        *,
        principal: str | None = None,
        dry_run: bool = False,
        batch_size: int = 1000,
        progress: Callable[[Erased], object] | None = None,
    ) -> Erased: ...

class _ChangeVerbs:
    def changes(
        self, since: str | None = None, *, follow: bool = True, poll_interval: float = 1.0
    ) -> Generator[Change]: ...
    def enable_changes(self, *, notify: bool = True) -> str: ...
    def disable_changes(self) -> bool: ...
    def prune_changes(
        self,
        older_than: timedelta,
        *,
        batch_size: int = 1000,
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> int: ...

class _Verbs(
    _ProtocolVerbs,
    _RecallVerbs,
    _RecordVerbs,
    _RelationVerbs,
    _LifecycleVerbs,
    _ListingVerbs,
    _BulkVerbs,
    _SpaceVerbs,
    _OperationVerbs,
    _ChangeVerbs,
):
    @property
    def namespace(self) -> str: ...

class SyncMemoryTransaction(_Verbs): ...
class SyncMemoryWithin(_Verbs): ...

class SyncPrincipalMemory(_Verbs):
    @property
    def principal(self) -> str: ...
    @contextmanager
    def transaction(self) -> Iterator[SyncMemoryTransaction]: ...

class SyncPostgresMemory(_Verbs):
    def __init__(
        self,
        dsn: str | None = None,
        *,
        namespace: str = "default",
        schema: str = "memory",
        max_content_bytes: int = ...,
        session_ttl: timedelta | None = None,
        idempotency_ttl: timedelta = ...,
        access_tracking: AccessTracking = "batched",
        thread_field: str | None = None,
        subject_field: str | None = None,
        ranking: Ranking | Preset = "hash",
        embedder: AnyEmbedder | None = None,
        space: str | None = None,
        distance: Distance = "cosine",
        embed_in_transactions: bool = False,
        embedded_fields: Sequence[str] = ...,
        pool_min_size: int = 1,
        pool_max_size: int = 10,
        connect_timeout: float = 10.0,
        acquire_timeout: float = 30.0,
        statement_timeout: float | None = None,
        retry_for: float = ...,
        read_dsn: str | None = None,
        max_replica_lag: float = 10.0,
        migration_dsn: str | None = None,
        principal_role: str = ...,
    ) -> None: ...
    def as_principal(self, name: str) -> SyncPrincipalMemory: ...
    def check_isolation(self, *, login: str | None = None) -> Isolation: ...
    def open(self) -> None: ...
    def within(self, seconds: float) -> SyncMemoryWithin: ...
    def migrate(self, *, revision: str = "head") -> str: ...
    @contextmanager
    def transaction(self) -> Iterator[SyncMemoryTransaction]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class SyncPostgresSession:
    def __init__(
        self,
        dsn: str | None = None,
        session_id: str | None = None,
        *,
        namespace: str = "default",
        schema: str = "memory",
        principal: str | None = None,
        pool_min_size: int = 1,
        pool_max_size: int = 10,
        principal_role: str = ...,
    ) -> None: ...
    @property
    def session_id(self) -> str: ...
    def get_messages(self, limit: int | None = None) -> list[dict[str, Any]]: ...
    def add_messages(self, messages: list[dict[str, Any]]) -> None: ...
    def clear(self, *, memories: bool = False) -> None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def synchronous(memory: PostgresMemory) -> SyncPostgresMemory: ...
