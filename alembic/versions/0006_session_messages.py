"""Create session_messages: the conversation log.

Revision 0006, after 0005.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.session_messages (
            namespace TEXT NOT NULL,
            session_id TEXT NOT NULL,
            seq BIGINT GENERATED ALWAYS AS IDENTITY,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
            message JSONB NOT NULL,
            owner TEXT DEFAULT 'system' NOT NULL,
            readers TEXT[] DEFAULT '{{}}' NOT NULL,
            writers TEXT[] DEFAULT '{{}}' NOT NULL,
            CONSTRAINT session_messages_pkey PRIMARY KEY (namespace, session_id, seq),
            CONSTRAINT session_messages_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255),
            CONSTRAINT session_messages_session_id_check CHECK (octet_length(session_id) BETWEEN 1 AND 255),
            CONSTRAINT session_messages_message_check CHECK (jsonb_typeof(message) = 'object')
        )
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.session_messages")
