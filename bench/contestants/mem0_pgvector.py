"""mem0ai: its PGVector store, without the language model that mem0's own Memory asks for."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

os.environ["MEM0_TELEMETRY"] = "False"

from mem0.vector_stores.pgvector import PGVector

from contestants.interface import CONNECTIONS, Item
from contestants.peer import TABLE, Peer

logging.getLogger("mem0").setLevel(logging.ERROR)
_AT_ONCE = 2_000


class Contender(Peer):
    name = "mem0"
    note = "only the vector store; synchronous psycopg, in threads where there are several tasks; HNSW by default"
    distributions = ("mem0ai", "psycopg")
    threaded = True

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.vectors = PGVector(
            dbname="",
            collection_name=TABLE,
            embedding_model_dims=self.dimensions,
            user=None,
            password=None,
            host=None,
            port=None,
            diskann=False,
            hnsw=True,
            minconn=CONNECTIONS,
            maxconn=CONNECTIONS,
            connection_string=self.dsn,
        )
        self.vectors.create_col()
        self.set_index_aside()

    async def close(self) -> None:
        self.vectors.connection_pool.close()

    def store(self, content: str, metadata: dict[str, Any]) -> None:
        self.vectors.insert([self.embed(content)], [{"data": content, **metadata}], [str(uuid4())])

    def bulk(self, items: Sequence[Item]) -> None:
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            payloads = [{"data": text, **data} for text, data in part]
            vectors = self.embed_many([text for text, _ in part])
            self.vectors.insert(vectors, payloads, [str(uuid4()) for _ in part])

    def search(self, query: str, limit: int) -> list[int]:
        return [one.payload["i"] for one in self.vectors.search(query, self.embed(query), limit)]

    def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        found = self.vectors.search(query, self.embed(query), limit, {"topic": topic})
        return [one.payload["i"] for one in found]
