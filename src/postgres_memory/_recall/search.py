"""`search`, the protocol's: exact cosine of hash embeddings, ties in insertion order; or as `recall`, if told so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._context import Context
from .._json import decode_metadata
from .._validation import check_content, check_limit
from ..embedding.counting import counts_of, squared_norm
from ..protocol import entry_class

if TYPE_CHECKING:
    from asyncpg import Record

    from ..protocol import MemoryEntry


async def search(context: Context, query: str, limit: int) -> list[MemoryEntry]:
    """Validate, embed the query, rank in SQL, decode."""
    text = check_content(query, "query", max_bytes=context.limits.content_bytes)
    at_most = check_limit(limit)
    if not at_most:
        await context.ready()  # a closed object is an error here too
        return []
    if context.ranking is not None:
        from .recall import recall

        hits = await recall(context, text, limit=at_most, ranking=context.ranking)
        made = entry_class()
        return [made(hit.record.content, hit.record.metadata, hit.score) for hit in hits]
    rows = await rank(context, await counts_of(text), at_most)
    entry = entry_class()
    if context.principal is not None:
        from .reading import read_again

        seen = await read_again(context, [row["id"] for row in rows])
        await context.touch(seen)
        found = [(seen[row["id"]], row["score"]) for row in rows if row["id"] in seen]
        return [entry(record.content, record.metadata, score) for record, score in found]
    await context.touch([row["id"] for row in rows])
    return [entry(content, decode_metadata(metadata), score) for content, metadata, score, _ in rows]


async def rank(context: Context, counts: list[int], limit: int) -> list[Record]:
    """Return content, metadata (JSON text), score and id of the nearest to ``counts``, best first."""
    from .._sql.parameters import expected_of
    from .._sql.searching import SHORT_QUERY_SQUARED_NORM, search_long_query, search_short_query

    norm = squared_norm(counts)
    parameters = {
        "namespace": context.namespace,
        "counts": counts,
        "query_norm": float(norm),
        "limit": limit,
    }
    if norm > SHORT_QUERY_SQUARED_NORM:
        return await context.candidates(search_long_query, parameters)
    return await context.candidates(search_short_query, parameters, expected_of(limit))
