"""The way to the server breaks, under writers that use every verb."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import pytest

from postgres_memory import PostgresMemory, _pooling, _transactions

from ..conftest import Database
from ..integration.proxy import Proxy
from .campaign import ENOUGH, RETRY_FOR, WRITERS, Campaign, Record, campaign
from .waiting import until

Act = Callable[[], Awaitable[object]]
Over = Callable[..., AbstractAsyncContextManager[Campaign]]


@pytest.fixture
def over(field: Database, way: Proxy, record: Record) -> Over:
    """Writers whose way to the server leads through the proxy, where only a block of theirs is ever refused."""

    @asynccontextmanager
    async def writing(*, writers: int = WRITERS, **options: Any) -> AsyncIterator[Campaign]:
        memory = PostgresMemory(way.dsn, retry_for=RETRY_FOR, **options)
        async with memory, campaign(memory, field.dsn, record, writers=writers) as work:
            yield work
            assert work.ledger.refusals.keys() <= {"transaction"} or "statement_timeout" in options

    return writing


@pytest.fixture
def cut(way: Proxy) -> Act:
    async def cut() -> None:
        way.cut()

    return cut


async def test_the_proxy_cuts(over: Over, cut: Act) -> None:
    async with over() as work:
        await work.while_writing(cut, every=20)


async def test_the_proxy_delays(over: Over, way: Proxy, cut: Act) -> None:
    """Answers come late, and now and then the connection is cut meanwhile."""
    async with over(writers=20) as work:
        way.delay = 0.002
        await work.while_writing(cut, every=100)
        way.delay = 0


async def test_the_proxy_swallows(over: Over, way: Proxy) -> None:
    """Everything, for a while. Connections that were open then never answer again."""
    async with over(statement_timeout=1.0) as work:
        for acknowledged in (300, 600, 900):
            await work.reached(acknowledged)
            way.black_hole = True
            await asyncio.sleep(0.5)
            way.black_hole = False
            work.faults += 1


async def test_answers_to_commit_are_lost(over: Over, way: Proxy) -> None:
    async with over() as work:
        way.lose_one_commit_of = 5
        await work.reached(ENOUGH)
        way.lose_one_commit_of = 0
        work.faults = way.commits // 5


async def test_answers_to_anything_are_lost(over: Over, way: Proxy) -> None:
    async def lose() -> None:
        way.lose_answer_to = way.executions + 1

    async with over() as work:
        await work.while_writing(lose, every=10)


async def test_copies_are_cut(over: Over, way: Proxy) -> None:
    """In the middle of a piece of their data."""
    async with over() as work:
        way.cut_one_copy_of = 5
        await work.reached(ENOUGH)
        way.cut_one_copy_of = 0
        work.faults = way.copies // 5


async def test_answers_come_piecemeal(over: Over, way: Proxy, cut: Act) -> None:
    """A few bytes at a time, and now and then the connection is cut in the middle of one."""
    async with over() as work:
        way.piecemeal = True
        await work.while_writing(cut, every=100)
        way.piecemeal = False


@pytest.mark.parametrize("key", [None, "in a transaction"])
async def test_a_cancelled_call_ends_though_nobody_answers(
    way: Proxy, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    for module in (_pooling, _transactions):
        monkeypatch.setattr(module, "LETTING_GO", 0.3)
    async with PostgresMemory(way.dsn) as memory:
        await memory.store("tea")
        way.black_hole = True
        call = asyncio.create_task(memory.add("milk", idempotency_key=key))
        await asyncio.sleep(0.2)
        call.cancel()
        await asyncio.wait([call], timeout=10)
        assert call.cancelled()
        way.black_hole = False
        await memory.store("sugar")
        assert [entry.content for entry in await memory.search("sugar", limit=1)] == ["sugar"]


async def test_a_large_copy_is_cut_while_it_waits(way: Proxy) -> None:
    """The server takes no more for now, and then never will."""
    async with PostgresMemory(way.dsn, retry_for=RETRY_FOR) as memory:
        await memory.store("tea")
        way.holds_copies = True
        load = asyncio.create_task(memory.add_many([f"{n}" * 100_000 for n in range(10, 60)]))
        await until(lambda: way.copies > 0)
        await asyncio.sleep(0.5)
        way.holds_copies = False
        way.cut()
        done, _ = await asyncio.wait([load], timeout=60)
        assert done
        assert load.result().stored == 50
        assert await memory.count() == 51


async def test_connections_are_kept_alive(way: Proxy) -> None:
    async with PostgresMemory(way.dsn) as memory, memory._context.database.acquired() as connection:
        own = cast(Any, connection)._transport.get_extra_info("socket")
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
