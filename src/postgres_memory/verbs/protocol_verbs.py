"""The three verbs of the memory protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._recall.search import search
from .._writing.clear import clear
from .._writing.store import store

if TYPE_CHECKING:
    from .._context import Context
    from .._pooling import Connection
    from ..protocol import MemoryEntry


class ProtocolVerbs:
    """`search`, `store` and `clear`, with the protocol's exact signatures."""

    _context: Context

    async def search(
        self, query: str, limit: int = 5, *, connection: Connection | None = None
    ) -> list[MemoryEntry]:
        """Return the ``limit`` memories of this namespace that are nearest to ``query``, best first.

        Each entry's ``score`` is the cosine similarity of the hash embeddings: 1.0 for the same text, 0.0 for nothing
        in common, 0.0 for every memory if the query has fewer than three characters. The order is exact, as if
        computed with unlimited precision; equal scores come in insertion order. Only active memories that have not
        expired are seen. ``limit=0`` gives ``[]``; a limit above the number of memories gives them all. An object made
        with another ``ranking`` ranks as `recall` does, with its scores.

        ``connection`` joins a transaction of the caller on a borrowed asyncpg connection.

        Raises InvalidTypeError or InvalidValueError for a bad query or limit, and NotMigratedError, SchemaTooOldError
        or a DatabaseError if the database cannot answer.
        """
        return await search(self._context.reading(connection), query, limit)

    async def store(
        self, content: str, metadata: dict[str, Any] | None = None, *, connection: Connection | None = None
    ) -> None:
        """Store one memory. When this returns, it is committed (in a transaction of the caller: with that one).

        The same content may be stored again: it is another memory. ``metadata`` is what JSON can hold; see the table
        in the reference for what becomes of other types.

        Raises InvalidTypeError or InvalidValueError before anything is written, or a DatabaseError.
        """
        await store(self._context.on(connection), content, metadata)

    async def clear(self, *, connection: Connection | None = None) -> None:
        """Delete every memory of this namespace, whatever its status. Other namespaces and session messages stay."""
        await clear(self._context.on(connection))
