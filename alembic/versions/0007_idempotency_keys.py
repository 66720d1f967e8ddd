"""Create idempotency_keys: which memory a retried call stored.

Revision 0007, after 0006.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.idempotency_keys (
            namespace TEXT NOT NULL,
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            memory_id TEXT NOT NULL,
            payload BYTEA NOT NULL,
            expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
            CONSTRAINT idempotency_keys_pkey PRIMARY KEY (namespace, owner, key),
            CONSTRAINT idempotency_keys_key_check CHECK (octet_length(key) BETWEEN 1 AND 255)
        )
        """
    )
    op.execute(
        f"CREATE INDEX idempotency_keys_expires_at_idx ON {schema}.idempotency_keys (namespace, expires_at)"
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.idempotency_keys")
