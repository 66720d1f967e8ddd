"""Remember which writes committed, so that a lost answer can be found out.

Revision 0013, after 0012.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.write_tokens (
            namespace text NOT NULL,
            token uuid NOT NULL,
            changed bigint DEFAULT 0 NOT NULL,
            CONSTRAINT write_tokens_pkey PRIMARY KEY (namespace, token),
            CONSTRAINT write_tokens_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255)
        )
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.write_tokens")
