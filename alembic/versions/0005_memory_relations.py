"""Create memory_relations: typed relations as a join table.

Revision 0005, after 0004.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.memory_relations (
            namespace TEXT NOT NULL,
            source_id TEXT NOT NULL,
            relation_type TEXT NOT NULL,
            label TEXT DEFAULT '' NOT NULL,
            target_id TEXT NOT NULL,
            confidence DOUBLE PRECISION DEFAULT 1.0 NOT NULL,
            metadata JSONB DEFAULT '{{}}' NOT NULL,
            CONSTRAINT memory_relations_pkey PRIMARY KEY (namespace, source_id, relation_type, label, target_id),
            CONSTRAINT memory_relations_source_fkey FOREIGN KEY(namespace, source_id) REFERENCES {schema}.memories (namespace, id) ON DELETE CASCADE,
            CONSTRAINT memory_relations_target_fkey FOREIGN KEY(namespace, target_id) REFERENCES {schema}.memories (namespace, id) ON DELETE CASCADE,
            CONSTRAINT memory_relations_relation_type_check CHECK (relation_type IN ('supports', 'contradicts', 'extends', 'precedes', 'follows', 'related')),
            CONSTRAINT memory_relations_label_check CHECK (octet_length(label) <= 255),
            CONSTRAINT memory_relations_ends_check CHECK (source_id <> target_id),
            CONSTRAINT memory_relations_confidence_check CHECK (confidence BETWEEN 0 AND 1),
            CONSTRAINT memory_relations_metadata_check CHECK (jsonb_typeof(metadata) = 'object')
        )
        """
    )
    op.execute(
        f"""
        CREATE INDEX memory_relations_target_idx ON {schema}.memory_relations (namespace, target_id, relation_type)
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.memory_relations")
