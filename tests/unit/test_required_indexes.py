"""The indexes that the schema says there are."""

from __future__ import annotations

from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateTable

from postgres_memory._sql.required_indexes import required_indexes
from postgres_memory._sql.schema import tables


def test_asking_for_them_changes_no_table() -> None:
    described, dialect = tables("another", "public"), registry.load("postgresql.asyncpg")()

    def created() -> list[str]:
        every = described.metadata.tables.values()
        return [str(CreateTable(table).compile(dialect=dialect)) for table in every]

    before = created()
    indexes = required_indexes(described)
    assert {"memories_pkey", "memories_seq_key", "memories_terms_idx"} <= {one.name for one in indexes}
    assert created() == before
