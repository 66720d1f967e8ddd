"""Index memories for listing: by time of creation, time of change and importance.

Revision 0008, after 0007.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"CREATE INDEX memories_created_at_idx ON {schema}.memories (namespace, created_at, seq)")
    op.execute(f"CREATE INDEX memories_updated_at_idx ON {schema}.memories (namespace, updated_at, seq)")
    op.execute(f"CREATE INDEX memories_importance_idx ON {schema}.memories (namespace, importance, seq)")


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP INDEX {schema}.memories_importance_idx")
    op.execute(f"DROP INDEX {schema}.memories_updated_at_idx")
    op.execute(f"DROP INDEX {schema}.memories_created_at_idx")
