"""Create hash_counts and hash_embedding: the hash embedding in SQL.

Revision 0001. The functions' texts, frozen, are in the folder functions/ beside this one.
"""

from __future__ import annotations

import re
from pathlib import Path

from alembic import op

from postgres_memory.migrations import escaped, quoted_names

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FUNCTIONS = Path(__file__).parent.parent / "functions"


def upgrade() -> None:
    schema, extension = quoted_names()
    names = {"@schema@": schema, "@extension@": extension}
    for name in ("hash_counts", "hash_embedding"):
        statement = escaped((FUNCTIONS / f"0001_{name}.sql").read_text(encoding="utf-8"))
        op.execute(re.sub("@schema@|@extension@", lambda found: names[found[0]], statement))


def downgrade() -> None:
    schema, _ = quoted_names()
    op.execute(f"DROP FUNCTION {schema}.hash_embedding(text)")
    op.execute(f"DROP FUNCTION {schema}.hash_counts(text)")
