"""Keep the events of change feeds, and say of each namespace whether it has one.

Revision 0018, after 0017. The columns are null or constant, so that adding them rewrites nothing.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names, quoted_role

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema, _ = quoted_names()
    role = quoted_role()
    op.execute(
        f"ALTER TABLE {schema}.namespace_settings ADD COLUMN changes_from bigint, "
        "ADD COLUMN changes_notified boolean DEFAULT true NOT NULL"
    )
    op.execute(f"""\
CREATE TABLE {schema}.changes (
    namespace text NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    version bigint,
    kind text NOT NULL,
    memory_id text NOT NULL,
    target_id text,
    relation_type text,
    label text,
    CONSTRAINT changes_pkey PRIMARY KEY (namespace, seq),
    CONSTRAINT changes_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255),
    CONSTRAINT changes_kind_check CHECK (kind IN ('added', 'updated', 'superseded', 'archived', 'restored', 'deleted', 'related', 'unrelated')),
    CONSTRAINT changes_memory_id_check CHECK (octet_length(memory_id) BETWEEN 1 AND 255),
    CONSTRAINT changes_target_id_check CHECK (octet_length(target_id) BETWEEN 1 AND 255),
    CONSTRAINT changes_relation_type_check CHECK (relation_type IN ('supports', 'contradicts', 'extends', 'precedes', 'follows', 'related')),
    CONSTRAINT changes_label_check CHECK (octet_length(label) <= 255)
)""")
    op.execute(f"""\
CREATE FUNCTION {schema}.refuse_without_events() RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$BEGIN
  RAISE EXCEPTION 'this namespace has a change feed, and the statement writes no events' USING ERRCODE = 'PMCF1';
END$function$""")
    here = f"{schema}.principal_namespace"
    op.execute(
        f"CREATE POLICY changes_insert ON {schema}.changes FOR INSERT WITH CHECK (namespace = (SELECT {here}()))"
    )
    op.execute(f"ALTER TABLE {schema}.changes ENABLE ROW LEVEL SECURITY")
    op.execute(
        "GRANT INSERT (namespace, version, kind, memory_id, target_id, relation_type, label) "
        f"ON {schema}.changes TO {role}"
    )


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP FUNCTION {schema}.refuse_without_events()")
    op.execute(f"DROP TABLE {schema}.changes")
    op.execute(
        f"ALTER TABLE {schema}.namespace_settings DROP COLUMN changes_notified, DROP COLUMN changes_from"
    )
