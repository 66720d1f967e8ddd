"""langgraph-checkpoint-postgres: AsyncPostgresStore with an index on the text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

from langgraph.store.base import PutOp
from langgraph.store.postgres import AsyncPostgresStore

from contestants.interface import CONNECTIONS, Item
from contestants.peer import Peer

_AT_ONCE = 2_000


class Contender(Peer):
    name = "langgraph"
    note = "two tables, upserts; merges the calls of one turn of the event loop into one statement"
    distributions = ("langgraph-checkpoint-postgres", "psycopg")

    async def open(self, dsn: str) -> None:
        await super().open(dsn)
        self.stack = AsyncExitStack()

    async def enter(self, place: str, *, near: bool = False) -> None:
        async def embed(texts: Sequence[str]) -> list[list[float]]:
            return self.embed_many(texts)

        opened = AsyncPostgresStore.from_conn_string(
            self.dsn,
            pool_config={"min_size": CONNECTIONS, "max_size": CONNECTIONS},
            index={"dims": self.dimensions, "embed": embed, "fields": ["text"]},
        )
        self.store_ = await self.stack.enter_async_context(opened)
        await self.store_.setup()
        self.set_index_aside()
        self.place = (place.replace(".", " "),)

    async def close(self) -> None:
        await self.stack.aclose()

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        await self.store_.aput(self.place, str(uuid4()), {"text": content, **metadata})

    async def bulk(self, items: Sequence[Item]) -> None:
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            puts = [PutOp(self.place, str(uuid4()), {"text": text, **data}) for text, data in part]
            await self.store_.abatch(puts)

    async def search(self, query: str, limit: int) -> list[int]:
        found = await self.store_.asearch(self.place, query=query, limit=limit)
        return [one.value["i"] for one in found]

    async def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        found = await self.store_.asearch(self.place, query=query, limit=limit, filter={"topic": topic})
        return [one.value["i"] for one in found]
