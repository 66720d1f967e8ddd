"""Hold the vectors of other embedders: spaces, and in each space the embeddings of memories.

Revision 0012, after 0011.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, extension_schema = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.embedding_spaces (
            namespace text NOT NULL,
            name text NOT NULL,
            dimensions integer NOT NULL,
            distance text DEFAULT 'cosine' NOT NULL,
            status text DEFAULT 'filling' NOT NULL,
            created_at timestamp with time zone DEFAULT now() NOT NULL,
            CONSTRAINT embedding_spaces_pkey PRIMARY KEY (namespace, name),
            CONSTRAINT embedding_spaces_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255),
            CONSTRAINT embedding_spaces_name_check CHECK (octet_length(name) <= 255 AND name NOT IN ('', 'hash')),
            CONSTRAINT embedding_spaces_dimensions_check CHECK (dimensions BETWEEN 1 AND 16000),
            CONSTRAINT embedding_spaces_distance_check CHECK (distance IN ('cosine', 'inner_product', 'l2')),
            CONSTRAINT embedding_spaces_status_check CHECK (status IN ('filling', 'active', 'retired'))
        )
        """
    )
    op.execute(
        f"""
        CREATE UNIQUE INDEX embedding_spaces_active_key ON {schema}.embedding_spaces (namespace)
            WHERE status = 'active'
        """
    )
    op.execute(
        f"""
        CREATE TABLE {schema}.memory_embeddings (
            namespace text NOT NULL,
            space text NOT NULL,
            field text DEFAULT '' NOT NULL,
            seq bigint NOT NULL,
            embedding {extension_schema}.vector,
            CONSTRAINT memory_embeddings_pkey PRIMARY KEY (namespace, seq, space, field),
            CONSTRAINT memory_embeddings_memory_fkey FOREIGN KEY (namespace, seq)
                REFERENCES {schema}.memories (namespace, seq) ON DELETE CASCADE,
            CONSTRAINT memory_embeddings_space_fkey FOREIGN KEY (namespace, space)
                REFERENCES {schema}.embedding_spaces (namespace, name),
            CONSTRAINT memory_embeddings_field_check CHECK (octet_length(field) <= 255)
        )
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.memory_embeddings")
    op.execute(f"DROP TABLE {schema}.embedding_spaces")
