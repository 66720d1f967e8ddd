"""The change feed over a crash of the server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import asyncpg

from postgres_memory import PostgresMemory
from tests.conftest import Database
from tests.integration.change_feeds import Follower

from .server import BreakableServer


async def test_who_waits_when_the_server_crashes_goes_on_afterwards(
    breakable: BreakableServer, field: Database
) -> None:
    """Transaction ids with which nothing was written are given again, so that nobody may wait for a later one."""
    async with PostgresMemory(field.dsn, retry_for=30) as memory, AsyncExitStack() as stack:
        since = await memory.enable_changes()
        late = await asyncpg.connect(field.direct_dsn)
        await late.execute("BEGIN")
        await memory.add("late", id="late", connection=late)
        await memory.add("early", id="early")
        raws = []
        for _ in range(15):
            raws.append(await asyncpg.connect(field.direct_dsn))
            stack.callback(raws[-1].terminate)
            await raws[-1].execute("BEGIN; SELECT pg_current_xact_id()")
        follower = Follower(memory, since)
        await asyncio.sleep(0.5)
        assert follower.changes == []
        await breakable.kill()
        late.terminate()
        await breakable.start()
        assert [change.id for change in await follower.until(1, 10)] == ["early"]
        await follower.stop()
