"""agno: its PgVector."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

os.environ["AGNO_TELEMETRY"] = "false"

from agno.knowledge.document import Document
from agno.knowledge.embedder.base import Embedder
from agno.utils import log
from agno.vectordb.pgvector import PgVector
from sqlalchemy import create_engine
from sqlalchemy.exc import ProgrammingError

from contestants.interface import CONNECTIONS, Item
from contestants.peer import TABLE, Peer

_AT_ONCE = 1_000
for _logger in (value for value in vars(log).values() if isinstance(value, logging.Logger)):
    _logger.setLevel(logging.CRITICAL)


@dataclass
class _Embedder(Embedder):
    peer: Any = None

    def get_embedding(self, text: str) -> list[float]:
        return self.peer.embed(text)

    def get_embedding_and_usage(self, text: str) -> tuple[list[float], None]:
        return self.peer.embed(text), None


class Contender(Peer):
    name = "agno"
    note = (
        "synchronous SQLAlchemy, in threads where there are several tasks; HNSW by optimize() with its ef_search of 5, "
        "whose step after that, a full-text index, fails"
    )
    distributions = ("agno", "sqlalchemy", "psycopg2-binary")
    threaded = True

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.engine = create_engine(self.sqlalchemy_dsn("psycopg2"), pool_size=CONNECTIONS, max_overflow=0)
        embedder = _Embedder(dimensions=self.dimensions, peer=self)
        self.vectors = PgVector(TABLE, db_engine=self.engine, embedder=embedder)
        self.vectors.create()
        try:
            self.vectors.optimize()
        except ProgrammingError as error:
            if "english" not in str(error):
                raise
        self.set_index_aside()

    async def close(self) -> None:
        self.engine.dispose()

    def store(self, content: str, metadata: dict[str, Any]) -> None:
        self.vectors.insert(str(uuid4()), [Document(content=content, meta_data=metadata)])

    def bulk(self, items: Sequence[Item]) -> None:
        documents = [Document(content=text, meta_data=data) for text, data in items]
        self.vectors.insert(str(uuid4()), documents, batch_size=_AT_ONCE)

    def search(self, query: str, limit: int) -> list[int]:
        return [document.meta_data["i"] for document in self.vectors.search(query, limit)]

    def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        found = self.vectors.search(query, limit, {"topic": topic})
        return [document.meta_data["i"] for document in found]
