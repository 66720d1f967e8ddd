"""SAME: the very statements our library sends, by hand-written asyncpg: what the library costs beside its SQL.

Before each block, our library makes the same calls, unmeasured, and what it sends is noted. Then each is sent again by
hand, with the work around it that nobody is spared: embedding the text, writing and reading JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from typing import Any

import asyncpg

from contestants.interface import CONNECTIONS, Contestant
from contestants.ours import Contender as Ours
from contestants.recording import Sent, recorded
from postgres_memory.embedding.hashing import hash_counts
from postgres_memory.ids import new_id

#: Verbs that write are noted in a namespace of their own, and sent again into another.
_ELSEWHERE = {"store"}


class _Noting(Ours):
    tracking = "off"
    pool_max_size = 1


class Contender(Contestant):
    name = "SAME"
    note = f"asyncpg, {CONNECTIONS} connections, the statements of ours prepared once on each"
    distributions = ("asyncpg",)

    async def open(self, dsn: str) -> None:
        self.ours = _Noting()
        await self.ours.open(dsn)
        self.free: asyncio.LifoQueue[asyncpg.Connection] = asyncio.LifoQueue()
        self.connections = [await asyncpg.connect(dsn) for _ in range(CONNECTIONS)]
        self.prepared: dict[tuple[asyncpg.Connection, str], Any] = {}
        for connection in self.connections:
            self.free.put_nowait(connection)

    async def close(self) -> None:
        await self.ours.close()
        for connection in self.connections:
            await connection.close()

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.place, self.near_ = place, near
        await self.ours.enter(place, near=near)

    async def ready(self, verb: str, inputs: Sequence[tuple[Any, ...]]) -> None:
        if verb in _ELSEWHERE:
            await self.ours.enter(f"{self.place} noted", near=self.near_)
        self.calls: deque[list[tuple[str, list[Any]]]] = deque()
        for arguments in inputs:
            with recorded() as sent:
                await getattr(self.ours, verb)(*arguments)
            self.calls.append([(one[0].sql, self._again(verb, one)) for one in sent])
        if verb in _ELSEWHERE:
            await self.ours.enter(self.place, near=self.near_)
        for connection in self.connections:
            for sql in {sql for call in self.calls for sql, _ in call}:
                if (connection, sql) not in self.prepared:
                    self.prepared[connection, sql] = await connection.prepare(sql)

    def _again(self, verb: str, sent: Sent) -> list[Any]:
        """Return the arguments with which a statement can be sent once more and does the same work."""
        statement, parameters = sent
        changed: dict[str, Any] = {}
        if verb in _ELSEWHERE:
            changed["namespace"] = f"{self.place} same"
        if verb == "relate" and "label" in parameters:  # not of what takes old write tokens away now and then
            changed["label"] = f"{parameters['label']} again"
        if parameters.get("token") is not None:
            changed["token"] = new_id()
        given = parameters | changed
        return [given[name] for name in statement.parameters]

    async def _send(self) -> list[Any]:
        """Send what the next call sends."""
        rows: list[Any] = []
        statements = self.calls.popleft()
        connection = await self.free.get()
        try:
            for sql, arguments in statements:
                rows = await self.prepared[connection, sql].fetch(*arguments)
        finally:
            self.free.put_nowait(connection)
        return rows

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        new_id(), json.dumps(metadata), hash_counts(content)
        await self._send()

    async def search(self, query: str, limit: int) -> list[int]:
        hash_counts(query)
        return [json.loads(row["metadata"])["i"] for row in await self._send()]

    async def near(self, query: str, limit: int) -> list[int]:
        hash_counts(query)
        return [json.loads(row["metadata"])["i"] for row in await self._send()]

    async def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        return await self.near(query, limit)

    async def recall(self, query: str) -> list[int]:
        return await self.near(query, 10)

    async def get(self, id: str) -> None:
        [dict(row) for row in await self._send()]

    async def find(self, limit: int) -> None:
        [dict(row) for row in await self._send()]

    async def related(self, id: str) -> None:
        [dict(row) for row in await self._send()]

    async def relate(self, source: str, target: str, label: str) -> None:
        json.dumps({})
        await self._send()
