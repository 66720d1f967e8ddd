"""Index relations for walking: those of a memory, most confident first, from either end; and contradictions.

Revision 0009, after 0008.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP INDEX {schema}.memory_relations_target_idx")
    op.execute(
        f"""
        CREATE INDEX memory_relations_source_idx ON {schema}.memory_relations
            (namespace, source_id, confidence DESC, target_id, relation_type, label)
        """
    )
    op.execute(
        f"""
        CREATE INDEX memory_relations_target_idx ON {schema}.memory_relations
            (namespace, target_id, confidence DESC, source_id, relation_type, label)
        """
    )
    op.execute(
        f"""
        CREATE INDEX memory_relations_contradicts_idx ON {schema}.memory_relations (namespace, source_id)
            WHERE relation_type = 'contradicts'
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP INDEX {schema}.memory_relations_contradicts_idx")
    op.execute(f"DROP INDEX {schema}.memory_relations_target_idx")
    op.execute(f"DROP INDEX {schema}.memory_relations_source_idx")
    op.execute(
        f"""
        CREATE INDEX memory_relations_target_idx ON {schema}.memory_relations (namespace, target_id, relation_type)
        """
    )
