"""Index what a principal may read: its own memories, those that everyone may read, and those that name somebody.

Revision 0019, after 0018. Memories of the trusted backend that are shared with nobody are in none of the indexes. While
they are built, reads go on and writes of memories wait, for as long as it takes to read the table three times.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"CREATE INDEX memories_owner_idx ON {schema}.memories (namespace, owner, seq) WHERE owner <> 'system'"
    )
    op.execute(
        f"""
        CREATE INDEX memories_everyone_idx ON {schema}.memories (namespace, seq, owner)
            WHERE '*' = ANY (readers) OR '*' = ANY (writers)
        """
    )
    op.execute(
        f"""
        CREATE INDEX memories_shared_idx ON {schema}.memories (namespace, seq)
            WHERE (readers <> '{{}}' OR writers <> '{{}}') AND '*' <> ALL (readers) AND '*' <> ALL (writers)
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP INDEX {schema}.memories_shared_idx")
    op.execute(f"DROP INDEX {schema}.memories_everyone_idx")
    op.execute(f"DROP INDEX {schema}.memories_owner_idx")
