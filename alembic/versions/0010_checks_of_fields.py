"""Check what the code refuses in the database too: times outside years 1 to 9999, and lists of names with gaps.

A time that is infinite, or outside what a datetime holds, could not be read back. Each constraint is added without
looking at the rows there are, then validated, which lets others read and write meanwhile. They are few, because an
INSERT of one row pays for each that there is to read.

Revision 0010, after 0009.
"""

from __future__ import annotations

from alembic import op

from postgres_memory.migrations import quoted_names

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_FIRST, _LAST = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"


def _times(columns: str) -> str:
    return f"LEAST({columns}) > '{_FIRST}' AND GREATEST({columns}) < '{_LAST}'"


def _keys(*columns: str) -> str:
    return " AND ".join(f"{column} <> '' AND octet_length({column}) <= 255" for column in columns)


#: A list that is not flat cannot be appended to.
_NAMES = "('' <> ALL ({0} || owner)) IS TRUE"

_CHECKS = {
    "memories": {
        "times": _times("created_at, updated_at, expires_at"),
        "names": _NAMES.format("tags || readers || writers"),
        "keys": f"octet_length(owner) <= 255 AND {_keys('thread_id', 'session_id')}",
    },
    "memory_hash_embeddings": {"expires_at": "isfinite(expires_at)"},
    "memory_access": {"last_accessed": _times("last_accessed")},
    "session_messages": {
        "created_at": _times("created_at"),
        "names": _NAMES.format("readers || writers"),
        "owner": "octet_length(owner) <= 255",
    },
    "idempotency_keys": {
        "expires_at": "isfinite(expires_at)",
        "keys": _keys("namespace", "owner", "memory_id"),
    },
}


def upgrade() -> None:
    schema, _ = quoted_names()
    for table, checks in _CHECKS.items():
        added = (
            f"ADD CONSTRAINT {table}_{name}_check CHECK ({check}) NOT VALID" for name, check in checks.items()
        )
        op.execute(f"ALTER TABLE {schema}.{table} {', '.join(added)}")
    for table, checks in _CHECKS.items():
        validated = (f"VALIDATE CONSTRAINT {table}_{name}_check" for name in checks)
        op.execute(f"ALTER TABLE {schema}.{table} {', '.join(validated)}")


def downgrade() -> None:
    schema, _ = quoted_names()
    for table, checks in reversed(_CHECKS.items()):
        dropped = (f"DROP CONSTRAINT {table}_{name}_check" for name in checks)
        op.execute(f"ALTER TABLE {schema}.{table} {', '.join(dropped)}")
