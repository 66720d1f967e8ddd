"""The tables of embedding spaces: which there are, and the embeddings of memories in them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from .types import QualifiedVector

DISTANCES = ("cosine", "inner_product", "l2")
SPACE_STATUSES = ("filling", "active", "retired")


def embedding_spaces(metadata: MetaData) -> Table:
    """Return the table of spaces. At most one of a namespace is active: complete, but for what waits."""
    return Table(
        "embedding_spaces",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("name", Text, nullable=False),
        Column("dimensions", Integer, nullable=False),
        Column("distance", Text, nullable=False, server_default=text("'cosine'")),
        Column("status", Text, nullable=False, server_default=text("'filling'")),
        Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
        PrimaryKeyConstraint("namespace", "name", name="embedding_spaces_pkey"),
        CheckConstraint("octet_length(namespace) BETWEEN 1 AND 255", name="embedding_spaces_namespace_check"),
        CheckConstraint(
            "octet_length(name) <= 255 AND name NOT IN ('', 'hash')", name="embedding_spaces_name_check"
        ),
        CheckConstraint("dimensions BETWEEN 1 AND 16000", name="embedding_spaces_dimensions_check"),
        CheckConstraint(_one_of("distance", DISTANCES), name="embedding_spaces_distance_check"),
        CheckConstraint(_one_of("status", SPACE_STATUSES), name="embedding_spaces_status_check"),
        Index(
            "embedding_spaces_active_key",
            "namespace",
            unique=True,
            postgresql_where=text("status = 'active'"),
        ),
    )


def memory_embeddings(metadata: MetaData, memories: Table, spaces: Table, extension_schema: str) -> Table:
    """Return the table of embeddings.

    The number comes before the space in its key, so that deleting a memory finds its embeddings. An embedding is NULL
    where its memory's content changed and nobody embedded the new one: INSERT … ON CONFLICT can put a NULL over a row
    that its statement cannot see yet, where a DELETE would leave it, a vector of another content.

    A memory may have several, each of a field: '' is the content, every other one is named by its path, as
    ``metadata.facts[2]``. Of those ``digest`` is the SHA-256 of the text, since a path does not say which one it was.
    """
    return Table(
        "memory_embeddings",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("space", Text, nullable=False),
        Column("field", Text, nullable=False, server_default=text("''")),
        Column("seq", BigInteger, nullable=False),
        Column("embedding", QualifiedVector(None, extension_schema)),
        Column("digest", LargeBinary),
        PrimaryKeyConstraint("namespace", "seq", "space", "field", name="memory_embeddings_pkey"),
        ForeignKeyConstraint(
            ["namespace", "seq"],
            [memories.c.namespace, memories.c.seq],
            name="memory_embeddings_memory_fkey",
            ondelete="CASCADE",
        ),
        ForeignKeyConstraint(
            ["namespace", "space"],
            [spaces.c.namespace, spaces.c.name],
            name="memory_embeddings_space_fkey",
        ),
        CheckConstraint("octet_length(field) <= 255", name="memory_embeddings_field_check"),
    )


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
