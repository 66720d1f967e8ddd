"""Create memory_access: access counters apart from the memories.

Revision 0004, after 0003.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.memory_access (
            namespace TEXT NOT NULL,
            id TEXT NOT NULL,
            last_accessed TIMESTAMP WITH TIME ZONE NOT NULL,
            access_count BIGINT NOT NULL,
            CONSTRAINT memory_access_pkey PRIMARY KEY (namespace, id),
            CONSTRAINT memory_access_memory_fkey FOREIGN KEY(namespace, id) REFERENCES {schema}.memories (namespace, id) ON DELETE CASCADE,
            CONSTRAINT memory_access_access_count_check CHECK (access_count >= 0)
        )
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.memory_access")
