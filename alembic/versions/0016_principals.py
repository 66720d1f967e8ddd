"""Let principals read and write what is theirs: functions, policies and rights of a role, under row-level security.

Revision 0016, after 0015. The statements, frozen, are in the folder functions/ beside this one. The role itself is made
before the revisions run, since a server has one for all its databases, and stays when the rest is undone.
"""

from __future__ import annotations

import re
from pathlib import Path

from alembic import op

from postgres_memory._sql.names import qualified, quote_text
from postgres_memory.migrations import escaped, quoted_names, quoted_role

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parent.parent / "functions" / "0016_principals.sql"

_POLICIES = {
    "memories": ("select", "insert", "update", "delete"),
    "memory_hash_embeddings": ("select", "insert", "update"),
    "memory_embeddings": ("select", "insert", "update"),
    "memory_access": ("select",),
    "memory_relations": ("select", "insert", "update", "delete"),
    "session_messages": ("select", "insert", "delete"),
    "idempotency_keys": ("all",),
    "namespace_settings": ("select",),
    "embedding_spaces": ("select", "update"),
    "write_tokens": (),
    "known_words": (),
}
_FUNCTIONS = (
    "set_access(text, text, text[], text[])",
    "may_write(text, text)",
    "principal_namespace()",
    "principal()",
)


def upgrade() -> None:
    schema, _ = quoted_names()
    memories = escaped(quote_text(qualified(op.get_context().opts["schema"], "memories")))
    names = {"schema": schema, "role": quoted_role(), "memories": memories}
    for statement in STATEMENTS.read_text(encoding="utf-8").removesuffix(";\n").split(";\n\n"):
        op.execute(re.sub("@(schema|role|memories)@", lambda place: names[place[1]], escaped(statement)))


def downgrade() -> None:
    schema, _ = quoted_names()
    role = quoted_role()
    for table, commands in _POLICIES.items():
        op.execute(f"ALTER TABLE {schema}.{table} DISABLE ROW LEVEL SECURITY")
        for command in commands:
            op.execute(f"DROP POLICY {table}_{command} ON {schema}.{table}")
        op.execute(f"REVOKE ALL ON {schema}.{table} FROM {role}")
    for function in _FUNCTIONS:
        op.execute(f"DROP FUNCTION {schema}.{function}")
    op.execute(f"REVOKE ALL ON {schema}.alembic_version FROM {role}")
    op.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {role}")
