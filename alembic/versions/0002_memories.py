"""Create memories: the memories.

Revision 0002, after 0001.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.memories (
            namespace TEXT NOT NULL,
            id TEXT NOT NULL,
            seq BIGINT GENERATED ALWAYS AS IDENTITY,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
            updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
            expires_at TIMESTAMP WITH TIME ZONE,
            importance DOUBLE PRECISION DEFAULT 0.5 NOT NULL,
            confidence DOUBLE PRECISION DEFAULT 1.0 NOT NULL,
            version BIGINT DEFAULT 1 NOT NULL,
            memory_type TEXT DEFAULT 'persistent' NOT NULL,
            status TEXT DEFAULT 'active' NOT NULL,
            content TEXT NOT NULL,
            metadata JSONB DEFAULT '{{}}' NOT NULL,
            tags TEXT[] DEFAULT '{{}}' NOT NULL,
            thread_id TEXT,
            session_id TEXT,
            supersedes TEXT,
            owner TEXT DEFAULT 'system' NOT NULL,
            readers TEXT[] DEFAULT '{{}}' NOT NULL,
            writers TEXT[] DEFAULT '{{}}' NOT NULL,
            content_key BYTEA,
            CONSTRAINT memories_pkey PRIMARY KEY (namespace, id),
            CONSTRAINT memories_seq_key UNIQUE (namespace, seq),
            CONSTRAINT memories_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255),
            CONSTRAINT memories_id_check CHECK (octet_length(id) BETWEEN 1 AND 255),
            CONSTRAINT memories_importance_check CHECK (importance BETWEEN 0 AND 1),
            CONSTRAINT memories_confidence_check CHECK (confidence BETWEEN 0 AND 1),
            CONSTRAINT memories_version_check CHECK (version >= 1),
            CONSTRAINT memories_memory_type_check CHECK (memory_type IN ('session', 'persistent', 'synthetic')),
            CONSTRAINT memories_status_check CHECK (status IN ('active', 'superseded', 'archived')),
            CONSTRAINT memories_metadata_check CHECK (jsonb_typeof(metadata) = 'object'),
            CONSTRAINT memories_supersedes_check CHECK (supersedes <> id),
            CONSTRAINT memories_supersedes_fkey FOREIGN KEY(namespace, supersedes) REFERENCES {schema}.memories (namespace, id) ON DELETE SET NULL (supersedes)
        )
        """
    )
    op.execute(
        f"""
        CREATE UNIQUE INDEX memories_content_key_key ON {schema}.memories (namespace, content_key) WHERE content_key IS NOT NULL AND status = 'active'
        """
    )
    op.execute(
        f"""
        CREATE INDEX memories_expires_at_idx ON {schema}.memories (namespace, expires_at) WHERE expires_at IS NOT NULL
        """
    )
    op.execute(
        f"""
        CREATE INDEX memories_session_id_idx ON {schema}.memories (namespace, session_id) WHERE session_id IS NOT NULL
        """
    )
    op.execute(
        f"""
        CREATE INDEX memories_supersedes_idx ON {schema}.memories (namespace, supersedes) WHERE supersedes IS NOT NULL
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.memories")
