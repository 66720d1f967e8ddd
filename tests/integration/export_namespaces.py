"""Namespaces to export and import, and what a test wants to know of them."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import asyncpg
from hypothesis import strategies as st

from postgres_memory import PostgresMemory, PostgresSession
from postgres_memory.records import MemoryRecord, MemoryRelation, MemoryRelationType
from tests.conftest import Database
from tests.factories import fractions, keys, records, texts, times
from tests.json_values import json_metadata


async def exported(memory: PostgresMemory, **options: Any) -> bytes:
    stream = io.BytesIO()
    await memory.export(stream, **options)
    return stream.getvalue()


@asynccontextmanager
async def opened(database: Database, namespace: str, **options: Any) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn, namespace=namespace, access_tracking="off", **options) as memory:
        yield memory


async def state(memory: PostgresMemory, database: Database) -> dict[str, Any]:
    """Everything a namespace holds, read by the verbs and, what no verb tells, from the tables."""
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        rows = await connection.fetch(
            "SELECT id, content_key FROM memory.memories WHERE namespace = $1 ORDER BY seq", memory.namespace
        )
        sessions = await connection.fetch(
            "SELECT session_id, created_at, message, owner, readers, writers FROM memory.session_messages "
            'WHERE namespace = $1 ORDER BY session_id COLLATE "C", seq',
            memory.namespace,
        )
        hashes = await connection.fetch(
            "SELECT id, h.status, h.expires_at, h.embedding::text FROM memory.memory_hash_embeddings h "
            "JOIN memory.memories m USING (namespace, seq) WHERE namespace = $1 ORDER BY seq",
            memory.namespace,
        )
    finally:
        await connection.close()
    found = await memory.get_many([row["id"] for row in rows])
    return {
        "records": [replace(cast(MemoryRecord, record), namespace="default") for record in found],
        "search": [(entry.content, entry.score) for entry in await memory.search("a b c", 10_000)],
        "content_keys": [tuple(row) for row in rows],
        "sessions": [tuple(row) for row in sessions],
        "hashes": [tuple(row) for row in hashes],
    }


@st.composite
def namespaces(draw: st.DrawFn) -> dict[str, Any]:
    """What a namespace may hold, in any combination the schema allows."""
    memories = draw(st.lists(records, max_size=6))
    ids = [record.id for record in memories]
    pairs = st.tuples(st.sampled_from(ids), st.sampled_from(ids)) if len(ids) > 1 else st.nothing()
    ends = draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=5)) if len(ids) > 1 else []
    relations = [
        (
            source,
            MemoryRelation(
                target,
                draw(st.sampled_from(MemoryRelationType)),
                draw(fractions),
                draw(json_metadata),
                draw(st.just("") | keys),
            ),
        )
        for source, target in ends
    ]
    chosen = draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=2)) if len(ids) > 1 else []
    return {
        "memories": memories,
        "relations": relations,
        "supersedes": dict(chosen),
        "changes": [
            (
                id_,
                draw(st.integers(1, 2**40)),
                draw(times),
                draw(st.none() | st.tuples(times, st.integers(0, 2**62))),
            )
            for id_ in ids
        ],
        "deduped": draw(st.lists(texts, max_size=2, unique=True)),
        "sessions": draw(st.dictionaries(keys, st.lists(json_metadata, min_size=1, max_size=3), max_size=2)),
    }


async def create(memory: PostgresMemory, dsn: str, held: dict[str, Any]) -> None:
    """Make the namespace hold what was drawn, by verbs where they can, and past them where they set values."""
    await memory.add_many(held["memories"])
    for source, relation in held["relations"]:
        await memory.relate(
            source,
            relation.target_id,
            relation.relation_type,
            label=relation.label,
            confidence=relation.confidence,
            metadata=relation.metadata,
        )
    for text in held["deduped"]:
        await memory.add(text, dedupe="content")
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        for id_, version, updated_at, access in held["changes"]:
            key = (memory.namespace, id_)
            statement = "UPDATE memory.memories SET version = $3, updated_at = $4, supersedes = $5"
            await pool.execute(
                f"{statement} WHERE namespace = $1 AND id = $2",
                *key,
                version,
                updated_at,
                held["supersedes"].get(id_),
            )
            if access is not None:
                await pool.execute("INSERT INTO memory.memory_access VALUES ($1, $2, $3, $4)", *key, *access)
        for session_id, messages in held["sessions"].items():
            async with PostgresSession(pool, session_id, namespace=memory.namespace) as session:
                await session.add_messages(messages)


async def wipe(database: Database, namespace: str) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        for table in ("memories", "session_messages"):
            await connection.execute(f"DELETE FROM memory.{table} WHERE namespace = $1", namespace)
    finally:
        await connection.close()


class Pipe(io.RawIOBase):
    """Bytes that can be read once, a few at a time."""

    def __init__(self, data: bytes) -> None:
        self._rest = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._rest.readinto(memoryview(buffer)[:777])


async def nothing_in(database: Database, namespace: str) -> bool:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        counted = await connection.fetchval(
            "SELECT (SELECT count(*) FROM memory.memories WHERE namespace = $1)"
            " + (SELECT count(*) FROM memory.session_messages WHERE namespace = $1)",
            namespace,
        )
    finally:
        await connection.close()
    return bool(counted == 0)


def resealed(data: bytes) -> bytes:
    """Return the file with the checksum its bytes have now."""
    from hashlib import sha256

    lines = data.splitlines(keepends=True)
    digest = sha256(b"".join(lines[:-1])).hexdigest()
    old = json.loads(lines[-1])["sha256"]
    return b"".join(lines[:-1]) + lines[-1].replace(old.encode(), digest.encode())
