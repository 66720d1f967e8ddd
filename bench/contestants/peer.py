"""What peers share: the embedder, and an HNSW index that is set aside where searches are to be exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg2

from contestants.interface import Contestant
from postgres_memory.embedding.hashing import hash_counts_many, hash_embedding, normalize

TABLE = "mem"
_INDEXES = "SELECT schemaname, indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%USING hnsw%'"


class Peer(Contestant):
    """A package that is made ready with its HNSW index; the index is dropped, and built again once all is stored."""

    dimensions = 32
    _known: dict[str, list[float]] | None = None
    _set_aside: Sequence[str] = ()

    async def know(self, dimensions: int, vectors: dict[str, list[float]]) -> None:
        """Embed by these vectors of a model's, not by the hash embedding."""
        self.dimensions, self._known = dimensions, vectors

    def embed(self, text: str) -> list[float]:
        return hash_embedding(text) if self._known is None else self._known[text]

    def embed_many(self, texts: Sequence[str]) -> list[list[float]]:
        if self._known is not None:
            return [self._known[text] for text in texts]
        return [normalize(counts) for counts in hash_counts_many(texts).tolist()]

    async def open(self, dsn: str) -> None:
        self.dsn = dsn

    def sqlalchemy_dsn(self, driver: str) -> str:
        return self.dsn.replace("postgresql://", f"postgresql+{driver}://", 1)

    def run(self, *statements: str) -> list[Any]:
        connection = psycopg2.connect(self.dsn)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def set_index_aside(self) -> None:
        """Drop what HNSW index the package made; `index` builds it as it was."""
        found = self.run(_INDEXES)
        self._set_aside = [definition for _, _, definition in found]
        for schema, name, _ in found:
            self.run(f'DROP INDEX "{schema}"."{name}"')

    async def index(self) -> None:
        assert self._set_aside, "the package made no HNSW index"
        self.run(*self._set_aside)

    # By an index or not, the call is the same.

    def near(self, query: str, limit: int) -> Any:
        return self.search(query, limit)
