"""The schema, defined once: SQLAlchemy Core tables for a schema name and the schema of the vector extension.

Alembic's revisions create the same objects step by step; a test compares the catalogs of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from .names import qualified, quote
from .namespace_tables import (
    RELATION_TYPES,
    changes,
    key_length,
    known_words,
    namespace_settings,
    write_tokens,
)
from .space_tables import embedding_spaces, memory_embeddings
from .types import QualifiedVector

#: Rows up to this squared norm are ranked in float8, exactly; the few longer texts in numeric. See _sql/searching.py.
SHORT_SQUARED_NORM = 131072

#: Which memories are not the trusted backend's, which everyone may read, and which others somebody is named by. Each
#: list by itself: of the two together the planner has no statistics.
OWNED = "owner <> 'system'"
OF_EVERYONE = "'*' = ANY (readers) OR '*' = ANY (writers)"
SHARED = "(readers <> '{}' OR writers <> '{}') AND '*' <> ALL (readers) AND '*' <> ALL (writers)"

MEMORY_TYPES = ("session", "persistent", "synthetic")
STATUSES = ("active", "superseded", "archived")


@dataclass(frozen=True, slots=True)
class Tables:
    """Every table of one schema, the schema pgvector lives in, and that of pg_trgm where the database has it."""

    schema: str
    extension_schema: str
    trigram_schema: str | None
    metadata: MetaData
    memories: Table
    memory_hash_embeddings: Table
    memory_access: Table
    memory_relations: Table
    session_messages: Table
    idempotency_keys: Table
    write_tokens: Table
    namespace_settings: Table
    known_words: Table
    embedding_spaces: Table
    memory_embeddings: Table
    changes: Table
    #: Where a statement that reads all of a namespace takes numbers and hash embeddings from; see _sql/limiting.py.
    numbers: Table
    ranked: Table
    #: Whether statements are built as if no namespace had a change feed.
    quiet: bool = False

    def vector(self, dimensions: int | None = None) -> QualifiedVector:
        """Return the vector type as this database spells it."""
        return QualifiedVector(dimensions, self.extension_schema)


@lru_cache(maxsize=64)
def tables(schema: str, extension_schema: str, trigram_schema: str | None = None) -> Tables:
    """Return the tables of ``schema``, their vectors typed in ``extension_schema``."""
    metadata = MetaData(schema=schema)
    memories = _memories(metadata, schema)
    hashes = _memory_hash_embeddings(metadata, memories, extension_schema)
    spaces = embedding_spaces(metadata)
    return Tables(
        schema=schema,
        extension_schema=extension_schema,
        trigram_schema=trigram_schema,
        metadata=metadata,
        memories=memories,
        memory_hash_embeddings=hashes,
        memory_access=_memory_access(metadata, memories),
        memory_relations=_memory_relations(metadata, memories),
        session_messages=_session_messages(metadata),
        idempotency_keys=_idempotency_keys(metadata),
        write_tokens=write_tokens(metadata),
        namespace_settings=namespace_settings(metadata),
        known_words=known_words(metadata),
        embedding_spaces=spaces,
        memory_embeddings=memory_embeddings(metadata, memories, spaces, extension_schema),
        changes=changes(metadata),
        numbers=memories,
        ranked=hashes,
    )


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


def _between_0_and_1(column: str) -> str:
    return f"{column} BETWEEN 0 AND 1"


def _keys(*columns: str) -> str:
    return " AND ".join(f"{column} <> '' AND octet_length({column}) <= 255" for column in columns)


def _times(columns: str) -> str:
    """Keep times inside what a datetime holds and the driver can write: neither infinite nor out of its years."""
    first, last = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"
    return f"LEAST({columns}) > '{first}' AND GREATEST({columns}) < '{last}'"


def _names(lists: str) -> str:
    """Keep lists of names, and the owner, without one that is NULL or empty. Those not flat cannot be appended to."""
    return f"('' <> ALL ({lists} || owner)) IS TRUE"


def _memories(metadata: MetaData, schema: str) -> Table:
    none = text("'{}'")
    table = Table(
        "memories",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("id", Text, nullable=False),
        Column("seq", BigInteger, Identity(always=True), nullable=False),
        Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
        Column("updated_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
        Column("expires_at", DateTime(timezone=True)),
        Column("importance", Double, nullable=False, server_default=text("0.5")),
        Column("confidence", Double, nullable=False, server_default=text("1.0")),
        Column("version", BigInteger, nullable=False, server_default=text("1")),
        Column("memory_type", Text, nullable=False, server_default=text("'persistent'")),
        Column("status", Text, nullable=False, server_default=text("'active'")),
        Column("content", Text, nullable=False),
        Column("metadata", JSONB, nullable=False, server_default=none),
        Column("tags", ARRAY(Text), nullable=False, server_default=none),
        Column("thread_id", Text),
        Column("session_id", Text),
        Column("supersedes", Text),
        Column("owner", Text, nullable=False, server_default=text("'system'")),
        Column("readers", ARRAY(Text), nullable=False, server_default=none),
        Column("writers", ARRAY(Text), nullable=False, server_default=none),
        Column("content_key", LargeBinary),
        # Where it stands in its thread: neighbours in number are neighbours there. See _sql/places.py.
        Column("place", BigInteger),
        Column("language", Text, nullable=False, server_default=text("'english'")),
        PrimaryKeyConstraint("namespace", "id", name="memories_pkey"),
        UniqueConstraint("namespace", "seq", name="memories_seq_key"),
        # An INSERT of one row pays for reading each check: of those that came later, one holds for many columns.
        CheckConstraint(key_length("namespace"), name="memories_namespace_check"),
        CheckConstraint(key_length("id"), name="memories_id_check"),
        CheckConstraint(
            f"octet_length(owner) <= 255 AND {_keys('thread_id', 'session_id')}",
            name="memories_keys_check",
        ),
        CheckConstraint(_times("created_at, updated_at, expires_at"), name="memories_times_check"),
        CheckConstraint(_names("tags || readers || writers"), name="memories_names_check"),
        CheckConstraint(_between_0_and_1("importance"), name="memories_importance_check"),
        CheckConstraint(_between_0_and_1("confidence"), name="memories_confidence_check"),
        CheckConstraint("version >= 1", name="memories_version_check"),
        CheckConstraint(_one_of("memory_type", MEMORY_TYPES), name="memories_memory_type_check"),
        CheckConstraint(_one_of("status", STATUSES), name="memories_status_check"),
        CheckConstraint("jsonb_typeof(metadata) = 'object'", name="memories_metadata_check"),
        CheckConstraint("supersedes <> id", name="memories_supersedes_check"),
        Index(
            "memories_content_key_key",
            "namespace",
            "content_key",
            unique=True,
            postgresql_where=text("content_key IS NOT NULL AND status = 'active'"),
        ),
        Index(
            "memories_session_id_idx",
            "namespace",
            "session_id",
            postgresql_where=text("session_id IS NOT NULL"),
        ),
        Index(
            "memories_supersedes_idx",
            "namespace",
            "supersedes",
            postgresql_where=text("supersedes IS NOT NULL"),
        ),
        Index(
            "memories_expires_at_idx",
            "namespace",
            "expires_at",
            postgresql_where=text("expires_at IS NOT NULL"),
        ),
        Index("memories_created_at_idx", "namespace", "created_at", "seq"),
        Index("memories_updated_at_idx", "namespace", "updated_at", "seq"),
        Index("memories_importance_idx", "namespace", "importance", "seq"),
        Index("memories_place_idx", "namespace", "place", postgresql_where=text("place IS NOT NULL")),
        # What a principal may read: its own, everyone's, and what names it. Those of the trusted backend are in none.
        Index("memories_owner_idx", "namespace", "owner", "seq", postgresql_where=text(OWNED)),
        Index("memories_everyone_idx", "namespace", "seq", "owner", postgresql_where=text(OF_EVERYONE)),
        Index("memories_shared_idx", "namespace", "seq", postgresql_where=text(SHARED)),
        # An expression and no column: COPY fills it, raw SQL cannot get it wrong, and no row grows.
        Index(
            "memories_terms_idx",
            text(
                f'{qualified(schema, "lexical_terms")}(namespace, language, content, created_at) COLLATE "C"'
            ),
            postgresql_using="gin",
            # What waits is read by every search and merged by one unlucky insert; this bounds both.
            postgresql_with={"gin_pending_list_limit": 256},
        ),
    )
    table.append_constraint(
        ForeignKeyConstraint(
            [table.c.namespace, table.c.supersedes],
            [table.c.namespace, table.c.id],
            name="memories_supersedes_fkey",
            ondelete="SET NULL (supersedes)",
        )
    )
    return table


def _memory_hash_embeddings(metadata: MetaData, memories: Table, extension_schema: str) -> Table:
    """Hold what ranking reads, apart from the texts: a fifth of the bytes per row, whatever the contents weigh.

    ``embedding`` holds the shingle counts themselves (cosine does not change with length, and integers make
    inner products exact); ``squared_norm`` is 1 for a zero vector, so that ranking divides without a case.
    The columns ranking reads come first and fixed-width before variable, which is what makes a row cheap to open.
    """
    norm = f"{quote(extension_schema)}.vector_norm(embedding)"
    return Table(
        "memory_hash_embeddings",
        metadata,
        Column("seq", BigInteger, nullable=False),
        Column(
            "squared_norm",
            Double,
            Computed(f"greatest(round({norm} * {norm}), 1::double precision)", persisted=True),
            nullable=False,
        ),
        Column("embedding", QualifiedVector(32, extension_schema), nullable=False),
        Column("namespace", Text, nullable=False),
        Column("status", Text, nullable=False, server_default=text("'active'")),
        Column("expires_at", DateTime(timezone=True)),
        PrimaryKeyConstraint("namespace", "seq", name="memory_hash_embeddings_pkey"),
        ForeignKeyConstraint(
            ["namespace", "seq"],
            [memories.c.namespace, memories.c.seq],
            name="memory_hash_embeddings_memory_fkey",
            ondelete="CASCADE",
        ),
        CheckConstraint(_one_of("status", STATUSES), name="memory_hash_embeddings_status_check"),
        CheckConstraint("isfinite(expires_at)", name="memory_hash_embeddings_expires_at_check"),
        Index(
            "memory_hash_embeddings_long_idx",
            "namespace",
            "seq",
            postgresql_where=text(f"squared_norm > {SHORT_SQUARED_NORM}"),
        ),
    )


def _memory_access(metadata: MetaData, memories: Table) -> Table:
    return Table(
        "memory_access",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("id", Text, nullable=False),
        Column("last_accessed", DateTime(timezone=True), nullable=False),
        Column("access_count", BigInteger, nullable=False),
        PrimaryKeyConstraint("namespace", "id", name="memory_access_pkey"),
        ForeignKeyConstraint(
            ["namespace", "id"],
            [memories.c.namespace, memories.c.id],
            name="memory_access_memory_fkey",
            ondelete="CASCADE",
        ),
        CheckConstraint("access_count >= 0", name="memory_access_access_count_check"),
        CheckConstraint(_times("last_accessed"), name="memory_access_last_accessed_check"),
    )


def _memory_relations(metadata: MetaData, memories: Table) -> Table:
    def end(column: str) -> ForeignKeyConstraint:
        return ForeignKeyConstraint(
            ["namespace", f"{column}_id"],
            [memories.c.namespace, memories.c.id],
            name=f"memory_relations_{column}_fkey",
            ondelete="CASCADE",
        )

    def walking(near: str, far: str) -> Index:
        name, columns = f"memory_relations_{near}_idx", ("relation_type", "label")
        return Index(name, "namespace", f"{near}_id", text("confidence DESC"), f"{far}_id", *columns)

    return Table(
        "memory_relations",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("source_id", Text, nullable=False),
        Column("relation_type", Text, nullable=False),
        Column("label", Text, nullable=False, server_default=text("''")),
        Column("target_id", Text, nullable=False),
        Column("confidence", Double, nullable=False, server_default=text("1.0")),
        Column("metadata", JSONB, nullable=False, server_default=text("'{}'")),
        PrimaryKeyConstraint(
            "namespace", "source_id", "relation_type", "label", "target_id", name="memory_relations_pkey"
        ),
        end("source"),
        end("target"),
        CheckConstraint(
            _one_of("relation_type", RELATION_TYPES), name="memory_relations_relation_type_check"
        ),
        CheckConstraint("octet_length(label) <= 255", name="memory_relations_label_check"),
        CheckConstraint("source_id <> target_id", name="memory_relations_ends_check"),
        CheckConstraint(_between_0_and_1("confidence"), name="memory_relations_confidence_check"),
        CheckConstraint("jsonb_typeof(metadata) = 'object'", name="memory_relations_metadata_check"),
        # A walk takes the most confident relations of a memory first, and must not read all of a hub's to find them.
        walking("source", "target"),
        walking("target", "source"),
        Index(
            "memory_relations_contradicts_idx",
            "namespace",
            "source_id",
            postgresql_where=text("relation_type = 'contradicts'"),
        ),
    )


def _session_messages(metadata: MetaData) -> Table:
    none = text("'{}'")
    return Table(
        "session_messages",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("session_id", Text, nullable=False),
        Column("seq", BigInteger, Identity(always=True), nullable=False),
        Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
        Column("message", JSONB, nullable=False),
        Column("owner", Text, nullable=False, server_default=text("'system'")),
        Column("readers", ARRAY(Text), nullable=False, server_default=none),
        Column("writers", ARRAY(Text), nullable=False, server_default=none),
        PrimaryKeyConstraint("namespace", "session_id", "seq", name="session_messages_pkey"),
        CheckConstraint(key_length("namespace"), name="session_messages_namespace_check"),
        CheckConstraint(key_length("session_id"), name="session_messages_session_id_check"),
        CheckConstraint("octet_length(owner) <= 255", name="session_messages_owner_check"),
        CheckConstraint(_names("readers || writers"), name="session_messages_names_check"),
        CheckConstraint(_times("created_at"), name="session_messages_created_at_check"),
        CheckConstraint("jsonb_typeof(message) = 'object'", name="session_messages_message_check"),
    )


def _idempotency_keys(metadata: MetaData) -> Table:
    """Remember which memory a retried call stored. Keys outlive memories: what was deleted is not stored again."""
    return Table(
        "idempotency_keys",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("owner", Text, nullable=False),
        Column("key", Text, nullable=False),
        Column("memory_id", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("expires_at", DateTime(timezone=True), nullable=False),
        PrimaryKeyConstraint("namespace", "owner", "key", name="idempotency_keys_pkey"),
        CheckConstraint(key_length("key"), name="idempotency_keys_key_check"),
        CheckConstraint(_keys("namespace", "owner", "memory_id"), name="idempotency_keys_keys_check"),
        CheckConstraint("isfinite(expires_at)", name="idempotency_keys_expires_at_check"),
        Index("idempotency_keys_expires_at_idx", "namespace", "expires_at"),
    )
