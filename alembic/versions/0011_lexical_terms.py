"""Index memories by the words they hold, in the language of their namespace, and number them within their threads.

Revision 0011, after 0010. The functions' texts, frozen, are in the folder functions/ beside this one.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

from postgres_memory.migrations import escaped, quoted_names

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

FUNCTIONS = Path(__file__).parent.parent / "functions"


def upgrade() -> None:
    schema, _ = quoted_names()
    for name in ("lexical_terms", "thread_place"):
        statement = escaped((FUNCTIONS / f"0011_{name}.sql").read_text(encoding="utf-8"))
        op.execute(statement.replace("@schema@", schema))
    op.execute(
        f"""
        CREATE TABLE {schema}.namespace_settings (
            namespace text NOT NULL,
            language text DEFAULT 'english' NOT NULL,
            CONSTRAINT namespace_settings_pkey PRIMARY KEY (namespace),
            CONSTRAINT namespace_settings_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255),
            CONSTRAINT namespace_settings_language_check CHECK (octet_length(language) BETWEEN 1 AND 255)
        )
        """
    )
    op.execute(
        f"""
        ALTER TABLE {schema}.memories
            ADD COLUMN place bigint,
            ADD COLUMN language text DEFAULT 'english' NOT NULL
        """
    )
    op.execute(
        f"CREATE INDEX memories_place_idx ON {schema}.memories (namespace, place) WHERE place IS NOT NULL"
    )
    op.execute(
        f"""
        UPDATE {schema}.memories AS m SET place = numbered.place
        FROM (
            SELECT namespace, seq, {schema}.thread_place(thread_id) + 15
                + row_number() OVER (PARTITION BY namespace, thread_id ORDER BY seq) AS place
            FROM {schema}.memories WHERE thread_id IS NOT NULL
        ) AS numbered
        WHERE m.namespace = numbered.namespace AND m.seq = numbered.seq
        """
    )
    op.execute(
        f"""
        CREATE INDEX memories_terms_idx ON {schema}.memories
            USING gin ({schema}.lexical_terms(namespace, language, content, created_at) COLLATE "C")
            WITH (gin_pending_list_limit = 256)
        """
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP INDEX {schema}.memories_terms_idx")
    op.execute(f"DROP INDEX {schema}.memories_place_idx")
    op.execute(f"ALTER TABLE {schema}.memories DROP COLUMN language, DROP COLUMN place")
    op.execute(f"DROP TABLE {schema}.namespace_settings")
    op.execute(f"DROP FUNCTION {schema}.thread_place(text)")
    op.execute(f"DROP FUNCTION {schema}.lexical_terms(text, text, text, timestamp with time zone)")
