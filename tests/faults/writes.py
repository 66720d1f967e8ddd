"""Every verb that writes, as something to do to a small namespace, and what can be seen of it afterwards."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import asyncpg

from postgres_memory import Erased, MemoryPermissions, MemoryRecord, PostgresMemory, PostgresSession, field
from postgres_memory.errors import DatabaseUnavailableError
from postgres_memory.postgres import Verbs

Act = Callable[[PostgresMemory], Awaitable[Any]]

PAST = datetime(2020, 1, 1, tzinfo=UTC)


async def furnish(memory: Verbs, session: PostgresSession) -> None:
    """Give a namespace a few memories of every kind, whose ids are known."""
    for id_ in ("tea", "milk", "sugar", "cup"):
        await memory.add(f"the {id_} is here", id=id_, metadata={"kind": "thing"})
    await memory.supersede("cup", "the mug is here", id="mug")
    await memory.relate("tea", "milk", "related")
    await memory.add("gone soon", id="late", expires_at=PAST)
    await memory.add("held once", id="held", dedupe="content")
    await memory.add("alice's own", id="hers", permissions=MemoryPermissions("alice"))
    await session.add_messages([{"role": "user", "content": "tea?"}])


async def _in_a_block(memory: PostgresMemory) -> str:
    """As an application does it: nothing inside is tried again, but the block may be."""
    while True:
        try:
            async with memory.transaction() as transaction:
                await transaction.store("the spoon is here")
                await transaction.delete("sugar")
                await transaction.update("tea", importance=0.9)
        except DatabaseUnavailableError as error:
            if not error.nothing_written:
                raise
        else:
            return "done"


async def _session(memory: PostgresMemory, act: Callable[[PostgresSession], Awaitable[None]]) -> None:
    session = PostgresSession(None, "talk", namespace=memory.namespace)
    session._context = memory._context
    await act(session)


_EXPORT = """\
{"content": "the plate is here"}
{"content": "the fork is here"}
"""

WRITES: dict[str, Act] = {
    "store": lambda m: m.store("the spoon is here", {"kind": "thing"}),
    "add": lambda m: m.add("the spoon is here"),
    "add, named": lambda m: m.add("the spoon is here", id="spoon"),
    "add, with relations": lambda m: m.add("the spoon is here", derived_from=["tea"]),
    "add, updating": lambda m: m.add("the green tea is here", id="tea", on_conflict="update"),
    "add, ignoring": lambda m: m.add("the green tea is here", id="tea", on_conflict="ignore"),
    "add, deduped": lambda m: m.add("the spoon is here", dedupe="content"),
    "add, deduped and held": lambda m: m.add("held once", dedupe="content"),
    "add, once": lambda m: m.add("the spoon is here", idempotency_key="spoon"),
    "update": lambda m: m.update("tea", importance=0.9),
    "update, versioned": lambda m: m.update("tea", importance=0.9, expected_version=1),
    "update, content": lambda m: m.update("tea", content="the green tea is here"),
    "update, merged": lambda m: m.update("tea", metadata={"milk": True}, metadata_mode="merge"),
    "delete": lambda m: m.delete("tea"),
    "delete, nothing": lambda m: m.delete("nothing"),
    "delete_many": lambda m: m.delete_many(field("metadata", "kind") == "thing"),
    "clear": lambda m: m.clear(),
    "archive": lambda m: m.archive("tea"),
    "supersede": lambda m: m.supersede("tea", "the coffee is here"),
    "supersede, named": lambda m: m.supersede("tea", "the coffee is here", id="coffee"),
    "restore": lambda m: m.restore("cup"),
    "relate": lambda m: m.relate("tea", "sugar", "supports", confidence=0.5),
    "relate, again": lambda m: m.relate("tea", "milk", "related", confidence=0.5),
    "unrelate": lambda m: m.unrelate("tea", "milk", "related"),
    "add_many": lambda m: m.add_many([f"plate {n}" for n in range(25)], batch_size=10),
    "add_many, whole": lambda m: m.add_many(
        [{"content": f"plate {n}", "id": f"plate-{n}", "thread_id": "meal"} for n in range(5)]
    ),
    "add_many, deduped": lambda m: m.add_many(["held once", "the plate is here"], dedupe="content"),
    "import_": lambda m: m.import_(io.BytesIO(_EXPORT.encode())),
    "purge_expired": lambda m: m.purge_expired(),
    "erase": lambda m: m.erase(m.namespace),
    "erase, a principal": lambda m: m.erase(principal="alice"),
    "set_language": lambda m: m.set_language("german"),
    "transaction": _in_a_block,
    "session, add_messages": lambda m: _session(
        m, lambda s: s.add_messages([{"content": "yes"}, {"content": "no"}])
    ),
    "principal, add": lambda m: m.as_principal("alice").add("the spoon is here"),
    "principal, update": lambda m: m.as_principal("alice").update("hers", importance=0.9),
    "principal, delete": lambda m: m.as_principal("alice").delete("hers"),
    "session, clear": lambda m: _session(m, lambda s: s.clear(memories=True)),
}

_STATE = """
SELECT 'memory' AS kind, jsonb_agg(jsonb_build_array(
    content, status, version, importance, metadata, language, thread_id, expires_at, content_key IS NULL,
    (SELECT string_agg(r.relation_type || r.label || r.confidence || t.content, ',' ORDER BY t.content)
     FROM memory.memory_relations r JOIN memory.memories t ON (t.namespace, t.id) = (r.namespace, r.target_id)
     WHERE (r.namespace, r.source_id) = (m.namespace, m.id))
) ORDER BY seq)::text AS shown FROM memory.memories m WHERE namespace = $1
UNION ALL SELECT 'message', jsonb_agg(message ORDER BY seq)::text FROM memory.session_messages WHERE namespace = $1
UNION ALL SELECT 'key', count(*)::text FROM memory.idempotency_keys WHERE namespace = $1
UNION ALL SELECT 'hash', count(*)::text FROM memory.memory_hash_embeddings WHERE namespace = $1
"""


async def state(connection: asyncpg.Connection[asyncpg.Record], namespace: str) -> list[tuple[Any, ...]]:
    """Everything a namespace holds, but for ids and times of the server's making."""
    return [tuple(row) for row in await connection.fetch(_STATE, namespace)]


def shown(result: object) -> object:
    """What a caller learns, but for ids and times."""
    if isinstance(result, MemoryRecord):
        return result.content, result.version, result.status, result.importance, result.metadata
    if isinstance(result, Erased):
        return replace(result, write_tokens=0)  # how many there were depends on what was found out by them
    return result
