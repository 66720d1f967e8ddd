"""By what a write is found out whose answer was lost: it is kept for as long as anybody asks, whatever clocks say."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._tokens import Tokens
from postgres_memory.errors import DatabaseUnavailableError, OutcomeUnknownError
from postgres_memory.ids import new_id

from ..conftest import Database
from ..integration.proxy import Proxy

_TOKENS = "SELECT token::text FROM memory.write_tokens ORDER BY token"


def token_of(age: timedelta) -> str:
    """Return a token that was made so long ago."""
    return new_id(int((datetime.now(UTC) - age).timestamp() * 1_000_000_000))


@pytest.mark.parametrize("days", [-1000, -2, 2, 1000])
async def test_the_clock_of_a_client_is_days_off(
    database: Database, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """What it leaves is kept while others delete what is old, and what others leave while it does."""
    real = time.time_ns
    watcher = await asyncpg.connect(database.direct_dsn)
    async with PostgresMemory(database.dsn) as right:
        await right.add("tea", id="a")
        await right.update("a", importance=0.1)
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: real() / 1e9 + days * 86_400)
            patch.setattr(time, "time_ns", lambda: real() + days * 86_400 * 10**9)
            async with PostgresMemory(database.dsn) as wrong:
                await wrong.update("a", importance=0.9)
                await wrong.purge_expired()
                await right.purge_expired()
                tokens = [row[0] for row in await watcher.fetch(_TOKENS)]
    await watcher.close()
    assert len(tokens) == 3
    near = timedelta(minutes=5)
    assert all(token_of(near) < token < token_of(-near) for token in tokens)


async def test_old_tokens_are_deleted(database: Database) -> None:
    watcher = await asyncpg.connect(database.direct_dsn)
    ages = [timedelta(days=400), timedelta(hours=24, minutes=1), timedelta(hours=23, minutes=59)]
    tokens = [token_of(age) for age in ages]
    insert = "INSERT INTO memory.write_tokens (namespace, token) VALUES ('default', $1)"
    await watcher.executemany(insert, [(token,) for token in tokens])
    async with PostgresMemory(database.dsn) as memory:
        await memory.purge_expired()
        assert [row[0] for row in await watcher.fetch(_TOKENS)] == tokens[2:]
    await watcher.close()


async def test_what_may_have_been_deleted_is_not_taken_for_what_never_was(database: Database) -> None:
    lost = DatabaseUnavailableError("the answer was lost", nothing_written=False)
    watcher = await asyncpg.connect(database.direct_dsn)
    insert = "INSERT INTO memory.write_tokens (namespace, token, changed) VALUES ('default', $1, 7)"
    await watcher.execute(insert, there := token_of(timedelta(days=9)))
    await watcher.close()
    async with PostgresMemory(database.dsn) as memory:
        ask = memory._context.database.changed_under
        assert await ask("default", there, lost) == 7
        assert await ask("default", token_of(timedelta(hours=11)), lost) is None
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError, match="so late"):
                await ask("default", token_of(timedelta(hours=13)), lost)


@pytest.mark.parametrize("verb", ["update", "transaction"])
@pytest.mark.parametrize("written", [True, False])
async def test_a_write_that_can_hardly_be_found_out_any_more(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, verb: str, written: bool
) -> None:
    """The machine slept between losing the answer and asking: what is there still tells, what is not does not."""
    async with PostgresMemory(proxy.dsn) as memory:

        async def write() -> None:
            if verb == "update":
                await memory.update("a", importance=0.9)
                return
            async with memory.transaction() as inside:
                await inside.update("a", importance=0.9)

        await memory.add("tea", id="a")
        for _ in range(2):  # for the first time, the driver asks about types as well
            proxy.executions = 0
            await write()
        last = proxy.executions
        monkeypatch.setattr(Tokens, "new", lambda _: token_of(timedelta(hours=13)))
        proxy.executions = 0
        if written:
            proxy.lose_answer_to = last
            await write()
        else:
            proxy.cut_before = last
            with pytest.raises(OutcomeUnknownError) as raised:
                await write()
            assert not raised.value.nothing_written
        assert (await memory.get("a")).version == (4 if written else 3)
