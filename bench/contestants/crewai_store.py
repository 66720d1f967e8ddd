"""crewai-memory-postgres: PostgresMemoryBackend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

from crewai.memory.types import MemoryRecord
from crewai_memory_postgres import PostgresMemoryBackend
from sqlalchemy import create_engine

from contestants.interface import CONNECTIONS, Item
from contestants.peer import TABLE, Peer

_AT_ONCE = 500


class Contender(Peer):
    name = "crewai"
    note = (
        "synchronous SQLAlchemy, in threads where there are several tasks; filters in Python what the nearest three "
        "times as many are"
    )
    distributions = ("crewai-memory-postgres", "crewai", "sqlalchemy", "psycopg2-binary")
    threaded = True

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.engine = create_engine(self.sqlalchemy_dsn("psycopg2"), pool_size=CONNECTIONS, max_overflow=0)
        self.backend = PostgresMemoryBackend(engine=self.engine, table_name=TABLE, dimensions=self.dimensions)
        self.set_index_aside()

    async def close(self) -> None:
        self.backend.close()

    def store(self, content: str, metadata: dict[str, Any]) -> None:
        self.backend.save([MemoryRecord(content=content, metadata=metadata, embedding=self.embed(content))])

    def bulk(self, items: Sequence[Item]) -> None:
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            pairs = zip(part, self.embed_many([text for text, _ in part]), strict=True)
            self.backend.save(
                [
                    MemoryRecord(content=text, metadata=data, embedding=vector)
                    for (text, data), vector in pairs
                ]
            )

    def search(self, query: str, limit: int) -> list[int]:
        return [record.metadata["i"] for record, _ in self.backend.search(self.embed(query), limit=limit)]

    def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        found = self.backend.search(self.embed(query), metadata_filter={"topic": topic}, limit=limit)
        return [record.metadata["i"] for record, _ in found]
