"""Every verb that reads, as something to ask the namespace that `writes.furnish` makes."""

from __future__ import annotations

import io

from postgres_memory import PostgresMemory, PostgresSession, field

from .writes import PAST, Act


async def _messages(memory: PostgresMemory) -> object:
    session = PostgresSession(None, "talk", namespace=memory.namespace)
    session._context = memory._context
    return await session.get_messages()


READS: dict[str, Act] = {
    "search": lambda m: m.search("tea", limit=3),
    "recall": lambda m: m.recall("the tea", limit=3, as_of=PAST),
    "get": lambda m: m.get("tea"),
    "get_many": lambda m: m.get_many(["tea", "milk", "nothing"]),
    "find": lambda m: m.find(filter=field("metadata", "kind") == "thing"),
    "count": lambda m: m.count(),
    "namespaces": lambda m: m.namespaces(counts=True),
    "health": lambda m: m.health(),
    "verify": lambda m: m.verify(),
    "history": lambda m: m.history("mug"),
    "relations": lambda m: m.relations("tea"),
    "related": lambda m: m.related("tea"),
    "contradictions": lambda m: m.contradictions(),
    "export": lambda m: m.export(io.BytesIO()),
    "spaces": lambda m: m.spaces(),
    "session, get_messages": _messages,
}
