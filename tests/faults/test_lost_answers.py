"""The connection is lost before a statement reaches the server, or its answer on the way back: for each statement of
each writing verb in turn; then once more, for the statement that finds out what became of it. The write is there
afterwards, once, and the caller is told what it did.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal

import asyncpg
import pytest

from postgres_memory import PostgresMemory, PostgresSession
from postgres_memory.postgres import Verbs

from ..conftest import Database
from ..integration.proxy import Proxy
from .writes import WRITES, furnish, shown, state

Fault = Literal["", "lost answer", "cut before", "lost answers", "cut before, lost answer"]

_FAULTS: tuple[Fault, ...] = ("lost answer", "cut before", "lost answers", "cut before, lost answer")
_MANY = 15


@pytest.fixture
async def watcher(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection past the proxy."""
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


class Trial:
    """A verb, run in a namespace of its own each time."""

    def __init__(
        self,
        proxy: Proxy,
        furnishing: PostgresMemory,
        watcher: asyncpg.Connection[asyncpg.Record],
        verb: str,
    ) -> None:
        self.proxy, self.furnishing, self.watcher, self.verb = proxy, furnishing, watcher, verb
        self.runs = 0

    async def run(self, fault: Fault, number: int) -> tuple[object, list[tuple[Any, ...]]]:
        """Return what the caller learns and what is there afterwards."""
        self.runs += 1
        namespace = f"trial-{self.runs}"
        context = replace(self.furnishing._context, namespace=namespace)
        session = PostgresSession(None, "talk", namespace=namespace)
        session._context = context
        await furnish(Verbs(context), session)
        async with PostgresMemory(self.proxy.dsn, namespace=namespace, access_tracking="off") as memory:
            self.proxy.executions = 0
            # What comes next is the first that finds out what became of it.
            later = 1 if fault == "cut before, lost answer" else 0
            self.proxy.lose_answer_to = number + later if "lost" in fault else 0
            self.proxy.lose_answers_after = 1 if fault == "lost answers" else 0
            self.proxy.cut_before = number if "cut" in fault else 0
            result = shown(await WRITES[self.verb](memory))
            executions = self.proxy.executions
            self.proxy.lose_answer_to = self.proxy.cut_before = self.proxy.lose_answers_after = 0
            counts = memory._context.database.pool_counts()
            assert counts is not None
            assert counts.in_use == 0
            await memory.store("and on it goes")
        self.proxy.executions = executions
        return result, await state(self.watcher, namespace)


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_happens_once(
    proxy: Proxy, memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record], verb: str
) -> None:
    trial = Trial(proxy, memory, watcher, verb)
    expected = await trial.run("", 0)
    executions = proxy.executions
    assert executions > 0
    for number in range(1, executions + 1):
        # A verb of many statements, which are alike, meets each fault at some of them.
        for fault in _FAULTS if executions <= _MANY else (_FAULTS[number % len(_FAULTS)],):
            assert await trial.run(fault, number) == expected, f"{fault}, statement {number}"
