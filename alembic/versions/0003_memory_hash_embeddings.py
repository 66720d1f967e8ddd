"""Create memory_hash_embeddings: what ranking reads: the hash embeddings in a narrow table.

Revision 0003, after 0002.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, extension = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.memory_hash_embeddings (
            seq BIGINT NOT NULL,
            squared_norm DOUBLE PRECISION GENERATED ALWAYS AS (greatest(round({extension}.vector_norm(embedding) * {extension}.vector_norm(embedding)), 1::double precision)) STORED NOT NULL,
            embedding {extension}.vector(32) NOT NULL,
            namespace TEXT NOT NULL,
            status TEXT DEFAULT 'active' NOT NULL,
            expires_at TIMESTAMP WITH TIME ZONE,
            CONSTRAINT memory_hash_embeddings_pkey PRIMARY KEY (namespace, seq),
            CONSTRAINT memory_hash_embeddings_memory_fkey FOREIGN KEY(namespace, seq) REFERENCES {schema}.memories (namespace, seq) ON DELETE CASCADE,
            CONSTRAINT memory_hash_embeddings_status_check CHECK (status IN ('active', 'superseded', 'archived'))
        )
        """
    )
    op.execute(
        f"""
        CREATE INDEX memory_hash_embeddings_long_idx ON {schema}.memory_hash_embeddings (namespace, seq) WHERE squared_norm > 131072
        """
    )
    op.execute(
        f"""
        INSERT INTO {schema}.memory_hash_embeddings (seq, embedding, namespace, status, expires_at)
        SELECT seq, {schema}.hash_counts(content), namespace, status, expires_at FROM {schema}.memories
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.memory_hash_embeddings")
