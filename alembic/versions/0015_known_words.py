"""Keep the words that each namespace is known to hold, to look for those nearest to a misspelt one.

Revision 0015, after 0014.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    op.execute(
        f"""
        CREATE TABLE {schema}.known_words (
            namespace text NOT NULL,
            word text COLLATE "C" NOT NULL,
            memories bigint NOT NULL,
            CONSTRAINT known_words_pkey PRIMARY KEY (namespace, word),
            CONSTRAINT known_words_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255)
        )
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP TABLE {schema}.known_words")
