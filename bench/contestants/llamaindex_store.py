"""llama-index-vector-stores-postgres: PGVectorStore, by its async methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    ExactMatchFilter,
    MetadataFilters,
    VectorStoreQuery,
)
from llama_index.vector_stores.postgres import PGVectorStore

from contestants.interface import CONNECTIONS, Item
from contestants.peer import TABLE, Peer

_AT_ONCE = 2_000
#: The values of its documentation.
_HNSW = {"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 40}


class Contender(Peer):
    name = "llama-index"
    note = "stores each node whole, as JSON, beside its text"
    distributions = ("llama-index-vector-stores-postgres", "sqlalchemy", "asyncpg")

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.nodes = PGVectorStore.from_params(
            connection_string=self.sqlalchemy_dsn("psycopg2"),
            async_connection_string=self.sqlalchemy_dsn("asyncpg"),
            table_name=TABLE,
            embed_dim=self.dimensions,
            use_jsonb=True,
            hnsw_kwargs=_HNSW,
            create_engine_kwargs={"pool_size": CONNECTIONS, "max_overflow": 0},
        )
        await self.nodes.async_add([])  # makes the table and the index
        self.set_index_aside()

    async def close(self) -> None:
        await self.nodes.close()

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        node = TextNode(text=content, metadata=metadata, embedding=self.embed(content))
        await self.nodes.async_add([node])

    async def bulk(self, items: Sequence[Item]) -> None:
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            vectors = self.embed_many([text for text, _ in part])
            pairs = zip(part, vectors, strict=True)
            nodes = [TextNode(text=text, metadata=data, embedding=vector) for (text, data), vector in pairs]
            await self.nodes.async_add(nodes)

    async def _search(self, query: str, limit: int, filters: MetadataFilters | None = None) -> list[int]:
        asked = VectorStoreQuery(query_embedding=self.embed(query), similarity_top_k=limit, filters=filters)
        found = await self.nodes.aquery(asked)
        return [node.metadata["i"] for node in found.nodes]

    async def search(self, query: str, limit: int) -> list[int]:
        return await self._search(query, limit)

    async def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        of_topic = MetadataFilters(filters=[ExactMatchFilter(key="topic", value=topic)])
        return await self._search(query, limit, of_topic)
