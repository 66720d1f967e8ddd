"""langchain-postgres: PGVectorStore on an async engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.indexes import HNSWIndex
from sqlalchemy.ext.asyncio import create_async_engine

from contestants.interface import CONNECTIONS, Item
from contestants.peer import TABLE, Peer

_AT_ONCE = 500
_COLUMNS = {"topic": "TEXT", "i": "INTEGER"}


class _Embedder(Embeddings):
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.peer.embed_many(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.peer.embed(text)

    # Those of the base class go by a thread.
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.peer.embed_many(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.peer.embed(text)


class Contender(Peer):
    name = "langchain"
    note = "topic and i are columns, since its filters know only those; aadd_texts sends a statement for each row"
    distributions = ("langchain-postgres", "sqlalchemy", "asyncpg")

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.engine = create_async_engine(
            self.sqlalchemy_dsn("asyncpg"), pool_size=CONNECTIONS, max_overflow=0
        )
        engine = PGEngine.from_engine(self.engine)
        columns = [Column(name, type_) for name, type_ in _COLUMNS.items()]
        await engine.ainit_vectorstore_table(TABLE, self.dimensions, metadata_columns=columns)
        self.texts = await PGVectorStore.create(
            engine, _Embedder(self), TABLE, metadata_columns=list(_COLUMNS)
        )
        await self.texts.aapply_vector_index(HNSWIndex())
        self.set_index_aside()

    async def close(self) -> None:
        await self.engine.dispose()

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        await self.texts.aadd_texts([content], [metadata])

    async def bulk(self, items: Sequence[Item]) -> None:
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            await self.texts.aadd_texts([text for text, _ in part], [data for _, data in part])

    async def search(self, query: str, limit: int) -> list[int]:
        found = await self.texts.asimilarity_search_with_score(query, k=limit)
        return [document.metadata["i"] for document, _ in found]

    async def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        found = await self.texts.asimilarity_search_with_score(query, k=limit, filter={"topic": topic})
        return [document.metadata["i"] for document, _ in found]
