"""Ours, as a user calls it, with the defaults: records with all columns, accesses counted, indexes as shipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import asyncpg
from suite.texts import id_of, item
from suite.worker import resident

from contestants.interface import Contestant, Item
from postgres_memory import MemoryPermissions, PostgresMemory
from postgres_memory._access import AccessTracking
from postgres_memory.embedding.hashing import HashEmbedder
from postgres_memory.filters import field

#: An embedding space of the hash embedding's vectors, for the index that all embedders have.
SPACE = "hash32"
topic_field = field("metadata", "topic")


class Contender(Contestant):
    name = "ours"
    note = (
        'near and filtered are recall(ranking="vector") in a space of the same 32 dimensions with create_index(), and '
        "create_metadata_index(); they return whole records"
    )
    distributions = ("asyncpg", "sqlalchemy")
    tracking: AccessTracking = "batched"
    pool_max_size = 10

    async def open(self, dsn: str) -> None:
        self.dsn = dsn
        self.memory: PostgresMemory | None = None

    async def enter(self, place: str, *, near: bool = False) -> None:
        await self.close()
        self.memory = PostgresMemory(
            self.dsn,
            namespace=place,
            access_tracking=self.tracking,
            pool_max_size=self.pool_max_size,
            embedder=HashEmbedder() if near else None,
            space=SPACE if near else None,
        )
        await self.memory.open()
        self.principal = self.memory.as_principal("p0")
        self.pinging = await asyncpg.connect(self.dsn)

    async def close(self) -> None:
        if self.memory is not None:
            await self.memory.close()
            await self.pinging.close()
            self.memory = None

    async def index(self) -> None:
        await self.memory.create_index(SPACE)
        await self.memory.create_metadata_index()

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        await self.memory.store(content, metadata)

    async def bulk(self, items: Sequence[Item]) -> None:
        result = await self.memory.add_many({"content": text, "metadata": data} for text, data in items)
        assert result.stored == len(items)

    async def search(self, query: str, limit: int) -> list[int]:
        return [entry.metadata["i"] for entry in await self.memory.search(query, limit)]

    async def near(self, query: str, limit: int) -> list[int]:
        hits = await self.memory.recall(query, limit=limit, ranking="vector")
        return [hit.record.metadata["i"] for hit in hits]

    async def filtered(self, query: str, limit: int, topic: str) -> list[int]:
        hits = await self.memory.recall(query, limit=limit, ranking="vector", filter=topic_field == topic)
        return [hit.record.metadata["i"] for hit in hits]

    async def get(self, id: str) -> None:
        await self.memory.get(id)

    async def find(self, limit: int) -> None:
        await self.memory.find(limit=limit)

    async def relate(self, source: str, target: str, label: str) -> None:
        await self.memory.relate(source, target, "supports", label=label)

    async def related(self, id: str) -> None:
        await self.memory.related(id, max_depth=3)

    async def recall(self, query: str) -> list[int]:
        return [hit.record.metadata.get("i", -1) for hit in await self.memory.recall(query)]

    # What a principal does, and what only this suite asks of us.

    async def ping(self, *_: Any) -> None:
        """Make one round trip."""
        await self.pinging.fetch("SELECT 1")

    async def principal_store(self, content: str, metadata: dict[str, Any]) -> None:
        await self.principal.store(content, metadata)

    async def principal_search(self, query: str, limit: int) -> None:
        await self.principal.search(query, limit)

    async def principal_recall(self, query: str) -> None:
        await self.principal.recall(query)

    async def principal_get(self, id: str) -> None:
        await self.principal.get(id)

    async def fill_shared(self, count: int, owners: int) -> None:
        """Store memories with ids, one in ``owners`` of which p0 may read; those first."""

        def items() -> Iterator[dict[str, Any]]:
            for number in range(count):
                content, metadata = item(number)
                reader = "p0" if number < count // owners else "p1"
                given = {"content": content, "metadata": metadata, "id": id_of(number)}
                yield given | {"permissions": MemoryPermissions(reader)}

        await self.memory.add_many(items())

    async def fill_namespaces(self, count: int, rows: int) -> None:
        """Fill namespaces ``n0``, ``n1``, … with as many memories each."""
        async with asyncpg.create_pool(self.dsn, min_size=1, max_size=4) as pool:
            for number in range(count):
                memory = PostgresMemory(pool, namespace=f"n{number}")
                items = (item(place) for place in range(number * rows, (number + 1) * rows))
                await memory.add_many({"content": text, "metadata": data} for text, data in items)
                await memory.close()

    async def open_anew(self, times: int) -> dict[str, Any]:
        """Say how long an object takes to open its pool and to check the schema."""
        seconds = []
        for _ in range(times):
            memory = PostgresMemory(self.dsn)
            begin = time.perf_counter()
            await memory.open()
            seconds.append(time.perf_counter() - begin)
            await memory.close()
        return {"times": seconds}

    async def bulk_resident(self, count: int) -> dict[str, Any]:
        """Load so many memories from a generator; say what this process held at most, in megabytes."""
        before = resident()["now"]
        await self.memory.add_many(
            {"content": text, "metadata": data} for text, data in map(item, range(count))
        )
        return {"before": before, **resident()}

    async def mixed(self, calls: int, samples: int) -> dict[str, Any]:
        """Make calls of many verbs; say what this process held after each part of them, in megabytes."""
        memory, held = self.memory, []
        ids = [(await memory.add(f"mixed {number}")).id for number in range(100)]
        verbs: list[Callable[[int], Any]] = [
            lambda n: memory.store(*item(n)),
            lambda n: memory.search(item(n)[0]),
            lambda n: memory.get(ids[n % 100]),
            lambda n: memory.find(limit=5),
            lambda n: memory.recall(item(n)[0], limit=3),
            lambda n: memory.update(ids[n % 100], importance=n % 11 / 10),
            lambda n: memory.relate(ids[n % 100], ids[(n + 1) % 100], "supports"),
            lambda n: memory.count(),
        ]
        for sample in range(samples):
            for number in range(sample * calls // samples, (sample + 1) * calls // samples):
                await verbs[number % len(verbs)](number)
                if number % 2_000 == 1_999:  # so that what is stored, and with it each call, stays small
                    await memory.delete_many({"metadata.topic": {"exists": True}})
            await self._tidied()  # as autovacuum does, which this server is without
            held.append(resident()["now"])
        return {"resident": held}

    async def _tidied(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()

    async def fill_graph(self, memories: int, edges: int) -> None:
        """Store memories ``m0`` …, and relations of each to others that arithmetic picks."""
        await self.memory.add_many(
            {"content": text, "metadata": data, "id": id_of(data["i"])}
            for text, data in map(item, range(memories))
        )
        connection = await asyncpg.connect(self.dsn)
        await connection.execute(
            "INSERT INTO memory.memory_relations (namespace, source_id, relation_type, target_id, confidence) "
            "SELECT $1, 'm' || n % $2::int, 'related', 'm' || (n % $2::int + 1 + n * 7919 % ($2::int - 1)) % $2::int, "
            "0.5 + n % 50 / 100.0 FROM generate_series(0, $3::bigint - 1) AS n ON CONFLICT DO NOTHING",
            self.memory.namespace,
            memories,
            edges,
        )
        await connection.close()

    async def expire(self, count: int) -> None:
        """Have so many memories be over."""
        connection = await asyncpg.connect(self.dsn)
        for table in ("memories", "memory_hash_embeddings"):
            await connection.execute(
                f"UPDATE memory.{table} SET expires_at = now() - interval '1 second' WHERE namespace = $1 "
                "AND seq IN (SELECT seq FROM memory.memories WHERE namespace = $1 ORDER BY seq LIMIT $2)",
                self.memory.namespace,
                count,
            )
        await connection.close()

    async def purge(self) -> dict[str, Any]:
        begin = time.perf_counter()
        await self.memory.purge_expired()
        return {"seconds": time.perf_counter() - begin}
