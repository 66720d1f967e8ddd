"""The index on metadata, for whom it pays: its definition, whether it is there, and which filters it answers."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, column, literal_column, select, table

from .metadata_predicates import MetadataLeaf
from .names import qualified, quote, quote_text
from .predicates import Shape
from .schema import Tables

#: One for all namespaces.
METADATA_INDEX = "memories_metadata_idx"


def create_metadata_index(tables: Tables) -> str:
    """Return the statement that builds the index while others read and write."""
    return (
        f"CREATE INDEX CONCURRENTLY {quote(METADATA_INDEX)} ON {qualified(tables.schema, 'memories')} "
        # What waits to be merged is read by every search; as for the index of terms.
        "USING gin (metadata jsonb_path_ops) WITH (gin_pending_list_limit = 256)"
    )


def drop_metadata_index(tables: Tables) -> str:
    """Return the statement that drops the index while others read and write."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {qualified(tables.schema, METADATA_INDEX)}"


def find_metadata_index(tables: Tables) -> Select[Any]:
    """Return a row if the index is there: whether it is whole."""
    indexes = table("pg_index", column("indexrelid"), column("indisvalid"), schema="pg_catalog")
    name = quote_text(qualified(tables.schema, METADATA_INDEX))
    return select(indexes.c.indisvalid.label("valid")).where(
        indexes.c.indexrelid == literal_column(f"pg_catalog.to_regclass({name})")
    )


def is_answered(shape: Shape) -> bool:
    """Say whether the index leads to what a filter's ``shape`` matches: whether that must contain something."""
    kind, *parts = shape
    if kind == "leaf":
        (leaf,) = parts
        return isinstance(leaf, MetadataLeaf) and bool(leaf.contained) and not leaf.negated
    answered = [is_answered(part) for part in parts if isinstance(part, tuple)]
    return any(answered) if kind == "and" else bool(answered) and all(answered)
