"""Writers that use every writing verb, each write noted in a ledger."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

from postgres_memory import MemoryRecord, PostgresMemory, PostgresSession, field
from postgres_memory.postgres import Verbs

from .ledger import Key, Ledger
from .writes import PAST

ANCHOR = "anchor"


class Writer:
    """One of several that write at the same time. What it writes carries its name and a number."""

    def __init__(self, memory: PostgresMemory, ledger: Ledger, name: str) -> None:
        self.memory = memory
        self.ledger = ledger
        self.name = name
        self.apart = Verbs(replace(memory._context, namespace=f"of {name}"))
        #: What may be in it.
        self.kept: set[Key] = set()
        self._numbers = itertools.count(1)
        self._steps: Iterator[Callable[[Writer, str], Awaitable[None]]] = itertools.cycle(STEPS)

    async def step(self) -> None:
        """Do the next few writes, of one memory or batch."""
        await next(self._steps)(self, f"{self.name} {next(self._numbers)}")

    def session(self, name: str) -> PostgresSession:
        session = PostgresSession(None, name, namespace=self.memory.namespace)
        session._context = self.memory._context
        return session


async def _new(self: Writer, name: str) -> None:
    write, memory = self.ledger.write, self.memory
    await write("store", memory.store(f"{name} store", {"a": 1}), {("content", f"{name} store"): 1}, None)
    await write("add", memory.add(f"{name} add"), {("content", f"{name} add"): 1})
    deduped = {("content", f"{name} deduped"): 1}
    await write("add, deduped", memory.add(f"{name} deduped", dedupe="content"), deduped)
    once = {("content", f"{name} once"): 1}
    await write("add, once", memory.add(f"{name} once", idempotency_key=name), once)


async def _changed(self: Writer, name: str) -> None:
    """One memory, through all that can happen to it. A change that is refused leaves it as it was."""
    write, memory, version, text = self.ledger.write, self.memory, ("version", name), ("content", f"{name} a")
    linked = ("relation", f"{name} extends {ANCHOR}")
    adding = memory.add(f"{name} a", id=name, derived_from=[ANCHOR], metadata={"kind": "thing"})
    if not await write("add, related", adding, {version: 1, text: 1, linked: 1}):
        return
    at = 1
    changes: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
        ("update", lambda: memory.update(name, importance=0.9)),
        ("update, merged", lambda: memory.update(name, metadata={"b": 2}, metadata_mode="merge")),
        ("update, versioned", lambda: memory.update(name, confidence=0.5, expected_version=at)),
        ("add, updating", lambda: memory.add(f"{name} a", id=name, on_conflict="update")),
        ("archive", lambda: memory.archive(name)),
        ("restore", lambda: memory.restore(name)),
    ]
    for verb, change in changes:
        if await write(verb, change(), {version: at + 1}):
            at += 1
        elif verb in ("archive", "restore"):
            return
    supports = ("relation", f"{name} supports {ANCHOR}")
    if await write("relate", memory.relate(name, ANCHOR, "supports"), {supports: 1}):
        await write("unrelate", memory.unrelate(name, ANCHOR, "supports"), {supports: 0}, True)
    newer = {version: at + 1, ("version", f"{name} new"): 1, ("content", f"{name} b"): 1}
    await write("supersede", memory.supersede(name, f"{name} b", id=f"{name} new"), newer)
    await write("delete", memory.delete(name), {version: 0, text: 0, linked: 0, supports: 0}, True)


async def _many(self: Writer, name: str) -> None:
    write, memory = self.ledger.write, self.memory
    plain = [f"{name} plain {n}" for n in range(5)]
    await write("add_many", memory.add_many(plain), {("content", text): 1 for text in plain})
    whole: list[str | dict[str, Any] | MemoryRecord] = [
        {"content": f"{name} whole {n}", "id": f"{name} whole {n}", "metadata": {"batch": name}}
        for n in range(5)
    ]
    there = {(kind, f"{name} whole {n}"): 1 for n in range(5) for kind in ("content", "version")}
    if await write("add_many, whole", memory.add_many(whole), there):
        deleting = memory.delete_many(field("metadata", "batch") == name)
        await write("delete_many", deleting, dict.fromkeys(there, 0), 5)
    lines = "".join(json.dumps({"content": f"{name} line {n}"}) + "\n" for n in range(3))
    imported = {("content", f"{name} line {n}"): 1 for n in range(3)}
    await write("import_", memory.import_(io.BytesIO(lines.encode())), imported)


async def _block(self: Writer, name: str) -> None:
    async def block() -> None:
        async with self.memory.transaction() as inside:
            await inside.store(f"{name} x")
            await inside.add(f"{name} y", id=f"{name} y")
            await inside.update(f"{name} y", importance=0.1)

    after = {("content", f"{name} x"): 1, ("content", f"{name} y"): 1, ("version", f"{name} y"): 2}
    await self.ledger.write("transaction", block(), after)


async def _apart(self: Writer, name: str) -> None:
    """In a namespace of its own, all of which it may change."""
    write, apart = self.ledger.write, self.apart
    stored, late = ("content", f"{name} apart"), ("content", f"{name} late")
    self.kept |= {stored, late}
    await write("store", apart.store(f"{name} apart"), {stored: 1})
    await write("set_language", apart.set_language("german"), {})
    await write("add", apart.add(f"{name} late", expires_at=PAST), {late: 1})
    expired = [key for key in self.kept if key[1].endswith("late")]
    await write("purge_expired", apart.purge_expired(), dict.fromkeys(expired, 0))
    await write("set_language", apart.set_language("english"), {})
    if await write("clear", apart.clear(), dict.fromkeys(self.kept, 0)):
        self.kept.clear()


async def _talk(self: Writer, name: str) -> None:
    write = self.ledger.write
    messages = [{"content": f"{name} yes"}, {"content": f"{name} no"}]
    said = {("message", f"{name} yes"): 1, ("message", f"{name} no"): 1}
    await write("add_messages", self.session("talk").add_messages(messages), said)
    forgotten = {("message", f"{name} well"): 1}
    if await write("add_messages", self.session(name).add_messages([{"content": f"{name} well"}]), forgotten):
        await write("session, clear", self.session(name).clear(), {("message", f"{name} well"): 0})


STEPS: tuple[Callable[[Writer, str], Awaitable[None]], ...] = (_new, _changed, _many, _block, _apart, _talk)
