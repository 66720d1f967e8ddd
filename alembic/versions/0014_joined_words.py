"""Find parts of joined words, single letters inside longer runs, and letters however they are encoded.

A new text of the function, and the index over it anew, under a name of its own until it takes the place of the old one.
While it is built, others read, by the old function and the old index; writes wait, about as long as the index took
when it was first made, and reads for a moment at the end. CREATE INDEX CONCURRENTLY would let writes go on, but not
inside a transaction, and one index cannot hold the terms of two functions.

Revision 0014, after 0013.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

from postgres_memory.migrations import escaped, quoted_names

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

FUNCTIONS = Path(__file__).parent.parent / "functions"


def upgrade() -> None:
    _replace("0014_lexical_terms.sql")


def downgrade() -> None:
    _replace("0011_lexical_terms.sql")


def _replace(file: str) -> None:
    schema, _ = quoted_names()
    statement = escaped((FUNCTIONS / file).read_text(encoding="utf-8")).replace("@schema@", schema)
    op.execute(statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
    op.execute(
        f"""
        CREATE INDEX memories_terms_new_idx ON {schema}.memories
            USING gin ({schema}.lexical_terms(namespace, language, content, created_at) COLLATE "C")
            WITH (gin_pending_list_limit = 256)
        """
    )
    op.execute(f"DROP INDEX {schema}.memories_terms_idx")
    op.execute(f"ALTER INDEX {schema}.memories_terms_new_idx RENAME TO memories_terms_idx")
