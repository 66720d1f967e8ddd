"""What the code of this version needs of a database. A test holds the revision against Alembic's head."""

REVISION = "0017"

#: pgvector before this lacks iterative index scans.
MINIMUM_VECTOR = (0, 8)
MINIMUM_SERVER = 150000
