"""`spaces`: the embedding spaces of a namespace."""

from __future__ import annotations

from .._context import Context
from ..space_records import EmbeddingSpace


async def spaces(context: Context) -> list[EmbeddingSpace]:
    """Read and count."""
    from .._sql.pending import list_spaces

    rows = await context.fetch(list_spaces, {"namespace": context.namespace}, context.fields)
    return [EmbeddingSpace(**row) for row in rows]
