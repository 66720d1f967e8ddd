"""${message}

Revision ${up_revision}, after ${down_revision}.
"""

from __future__ import annotations

from alembic import op
from postgres_memory.migrations import quoted_names

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One statement per op.execute."""
    schema, extension = quoted_names()


def downgrade() -> None:
    """Undo it."""
    schema, extension = quoted_names()
