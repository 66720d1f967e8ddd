"""Writers at work while something breaks, and the reckoning afterwards."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from postgres_memory import PostgresMemory

from .ledger import Ledger
from .waiting import until
from .workload import ANCHOR, Writer

#: So many writes are acknowledged in each campaign, by so many writers.
ENOUGH = 1_000
WRITERS = 6
#: Longer than any fault lasts, also on a machine that has much else to do.
RETRY_FOR = 60.0
#: Seconds within which a campaign ends, or has failed.
_PATIENCE = 240.0

Record = Callable[[str, object], None]


@dataclass
class Campaign:
    """``direct`` names the database past whatever is broken."""

    memory: PostgresMemory
    direct: str
    ledger: Ledger = field(default_factory=Ledger)
    #: How often something was broken.
    faults: int = 0
    #: Whether the writers go on.
    going_on: bool = True
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def reached(self, acknowledged: int) -> None:
        """Wait until so many writes are acknowledged."""
        await until(lambda: self.ledger.acknowledged >= acknowledged or not self.going_on, seconds=_PATIENCE)
        self._check()

    async def while_writing(self, injure: Callable[[], Awaitable[object]], *, every: int) -> None:
        """Do ``injure`` again and again, each time after so many acknowledged writes, until there are enough."""
        while self.ledger.acknowledged < ENOUGH:
            await injure()
            self.faults += 1
            await self.reached(self.ledger.acknowledged + every)

    def _check(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()
                raise AssertionError("the writers stopped")

    async def _write(self, name: str) -> None:
        writer = Writer(self.memory, self.ledger, name)
        try:
            while self.going_on:
                await writer.step()
        finally:
            self.going_on = False


def listened() -> list[dict[str, Any]]:
    """Return the list of what the event loop will complain about, such as errors that nobody retrieved.

    All but one: if the server ends a session just before a COPY, asyncpg makes a future that it then forgets.
    """
    complaints: list[dict[str, Any]] = []

    def listen(_: object, about: dict[str, Any]) -> None:
        forgotten = isinstance(about.get("exception"), asyncpg.ConnectionDoesNotExistError)
        if not (forgotten and type(about.get("future")) is asyncio.Future):
            complaints.append(about)

    asyncio.get_running_loop().set_exception_handler(listen)
    return complaints


@asynccontextmanager
async def campaign(
    memory: PostgresMemory, direct: str, record: Record, *, writers: int = WRITERS
) -> AsyncIterator[Campaign]:
    """Let writers write while the body breaks something, then compare what they were told with what is there."""
    complaints = listened()
    before = asyncio.all_tasks()
    made = Campaign(memory, direct)
    ledger = made.ledger
    async with asyncio.timeout(_PATIENCE):
        await memory.add("what others refer to", id=ANCHOR)
        made.tasks += [asyncio.create_task(made._write(f"writer-{n}")) for n in range(writers)]
        try:
            yield made
            await made.reached(ENOUGH)
        finally:
            made.going_on = False
            if ledger.acknowledged < ENOUGH:
                for task in made.tasks:
                    task.cancel()
            outcomes = await asyncio.gather(*made.tasks, return_exceptions=True)
        assert [outcome for outcome in outcomes if outcome is not None] == []
        await _works(memory)
    connection = await asyncpg.connect(direct)
    try:
        lost, double = await ledger.compared(connection)
    finally:
        await connection.close()
    told = {
        "faults": made.faults,
        "acknowledged": ledger.acknowledged,
        "lost": len(lost),
        "double": len(double),
        "refused": ledger.refused,
        "unknown": ledger.unknown,
        "errors": dict(ledger.errors),
        "unknowns": dict(ledger.unknowns),
    }
    record("campaign", told)
    assert (lost, double, ledger.wrong) == ([], [], []), told
    assert ledger.unknown == 0, told
    assert made.faults > 0
    await _at_rest(memory, before)
    assert [
        (about["message"], about.get("exception"), about.get("future"), about.get("source_traceback"))
        for about in complaints
    ] == []


async def _works(memory: PostgresMemory) -> None:
    """The same object goes on, without being made anew."""
    await memory.store("and on it goes")
    assert [entry.content for entry in await memory.search("and on it goes", limit=1)] == ["and on it goes"]


async def _at_rest(memory: PostgresMemory, before: set[asyncio.Task[Any]]) -> None:
    async with asyncio.timeout(10):
        while others := [task for task in asyncio.all_tasks() - before if "Proxy" not in repr(task)]:
            await asyncio.wait(others, timeout=0.1)
    counts = memory._context.database.pool_counts()
    assert counts is not None
    assert counts.in_use == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
