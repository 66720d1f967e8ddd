"""`namespaces`: every namespace of the schema that holds memories."""

from __future__ import annotations

from .._context import Context
from ..listing_records import NamespaceInfo


async def namespaces(context: Context, *, counts: bool) -> list[NamespaceInfo]:
    """Read the names from the index; count only if asked."""
    from .._sql.listing import list_namespaces

    rows = await context.fetch(list_namespaces, {}, counts)
    return [
        NamespaceInfo(
            row["name"],
            row["first_created_at"],
            row["last_created_at"],
            row["last_updated_at"],
            row["memories"],
        )
        for row in rows
    ]
