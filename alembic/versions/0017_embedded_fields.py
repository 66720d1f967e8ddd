"""Tell of each embedding of a field of the metadata which text it is of.

Revision 0017, after 0016. The column is null, so that adding it rewrites nothing.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names, quoted_role

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"ALTER TABLE {schema}.memory_embeddings ADD COLUMN digest bytea")
    op.execute(f"GRANT UPDATE (digest) ON {schema}.memory_embeddings TO {quoted_role()}")


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"ALTER TABLE {schema}.memory_embeddings DROP COLUMN digest")
