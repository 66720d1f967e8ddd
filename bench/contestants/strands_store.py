"""strands-postgres-store: PostgresMemoryStore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import create_engine
from strands_postgres_store import PostgresMemoryStore

from contestants.interface import CONNECTIONS, Item
from contestants.peer import TABLE, Peer


class Contender(Peer):
    name = "strands"
    note = "synchronous SQLAlchemy behind coroutines, on threads of its own; no bulk, no filter"
    distributions = ("strands-postgres-store", "sqlalchemy", "psycopg2-binary")

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.engine = create_engine(self.sqlalchemy_dsn("psycopg2"), pool_size=CONNECTIONS, max_overflow=0)
        self.memories = PostgresMemoryStore(
            name=TABLE,
            engine=self.engine,
            table_name=TABLE,
            embedder=self.embed,
            dimensions=self.dimensions,
        )
        self.set_index_aside()

    async def close(self) -> None:
        self.engine.dispose()

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        await self.memories.add(content, metadata)

    async def bulk(self, items: Sequence[Item]) -> None:
        for content, metadata in items:
            await self.memories.add(content, metadata)

    async def search(self, query: str, limit: int) -> list[int]:
        found = await self.memories.search(query, {"max_search_results": limit})
        return [one["metadata"]["i"] if isinstance(one, dict) else one.metadata["i"] for one in found]
