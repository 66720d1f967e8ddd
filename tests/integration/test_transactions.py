"""Joining the caller's transaction, and `transaction()`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from postgres_memory import MemoryTransaction, PostgresMemory
from postgres_memory.errors import (
    DatabaseError,
    InvalidValueError,
    OutcomeUnknownError,
    PostgresMemoryError,
    UsageError,
)

from ..conftest import Database
from .proxy import proxied


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the caller's own."""
    own = await asyncpg.connect(database.direct_dsn)
    yield own
    await own.close()


async def contents(memory: PostgresMemory) -> list[str]:
    """What others see, in alphabetical order."""
    return sorted(entry.content for entry in await memory.search("tea", 99))


class OurError(Exception):
    """An error of the application's."""


async def test_connection_joins_the_callers_transaction(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await memory.store("tea before")
    transaction = connection.transaction()
    await transaction.start()
    await memory.store("tea inside", connection=connection)
    assert len(await memory.search("tea", connection=connection)) == 2
    assert await contents(memory) == ["tea before"]
    await memory.clear(connection=connection)
    assert await memory.search("tea", connection=connection) == []
    assert await contents(memory) == ["tea before"]
    await transaction.rollback()
    assert await contents(memory) == ["tea before"]
    async with connection.transaction():
        await memory.store("tea at last", connection=connection)
    assert await contents(memory) == ["tea at last", "tea before"]


async def test_connection_without_a_transaction_commits_at_once(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await memory.store("tea", connection=connection)
    assert await contents(memory) == ["tea"]


async def test_a_connection_of_a_pool_joins_too(memory: PostgresMemory, database: Database) -> None:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1) as pool, pool.acquire() as lent:

        async def work() -> None:
            async with lent.transaction():
                await memory.store("tea", connection=lent)
                raise OurError

        with pytest.raises(OurError):
            await work()
    assert await contents(memory) == []


async def test_a_block_commits_at_its_end(memory: PostgresMemory) -> None:
    async with memory.transaction() as transaction:
        assert transaction.namespace == memory.namespace
        await transaction.store("tea", {"n": 1})
        assert [entry.metadata for entry in await transaction.search("tea")] == [{"n": 1}]
        assert await contents(memory) == []
    assert await contents(memory) == ["tea"]
    async with memory.transaction() as transaction:
        await transaction.clear()
        assert await contents(memory) == ["tea"]
    assert await contents(memory) == []


@pytest.mark.parametrize(
    "error",
    [
        OurError("x"),
        OSError("x"),
        ConnectionResetError("x"),
        TimeoutError("x"),
        ValueError("x"),
        KeyError("x"),
        asyncpg.InterfaceError("x"),
        asyncpg.PostgresError("x"),
        InvalidValueError("x", "y"),
        PostgresMemoryError("x"),
        asyncio.CancelledError("x"),
        KeyboardInterrupt("x"),
        GeneratorExit("x"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_of_the_body_pass_as_they_are_and_roll_back(
    memory: PostgresMemory, error: BaseException
) -> None:
    async def work() -> None:
        async with memory.transaction() as transaction:
            await transaction.store("tea")
            raise error

    with pytest.raises(type(error)) as caught:
        await work()
    assert caught.value is error
    assert error.__cause__ is None
    assert await contents(memory) == []
    await memory.store("tea")
    assert await contents(memory) == ["tea"]


async def test_the_bodys_error_is_seen_although_the_connection_is_lost(database: Database) -> None:
    async with proxied(database) as proxy, PostgresMemory(proxy.dsn, retry_for=0.5) as memory:

        async def work() -> None:
            async with memory.transaction() as transaction:
                await transaction.store("tea")
                await proxy.stop()
                raise OurError

        with pytest.raises(OurError):
            await work()
        await proxy.start()
        assert await contents(memory) == []

        async def work() -> None:
            async with memory.transaction() as transaction:
                await transaction.store("tea")
                await proxy.stop()

        with pytest.raises(OutcomeUnknownError):
            await work()
        await proxy.start()
        assert await contents(memory) == []


async def test_cancelled_inside(memory: PostgresMemory) -> None:
    async def work() -> None:
        async with memory.transaction() as transaction:
            while True:
                await transaction.store("tea")

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await contents(memory) == []


@pytest.mark.parametrize("unanswered", ["SAVEPOINT postgres_memory_0", "SAVEPOINT postgres_memory_1"])
async def test_cancelled_before_the_answer_to_a_savepoint(
    memory: PostgresMemory,
    connection: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
    unanswered: str,
) -> None:
    """Who catches it and goes on in his transaction commits nothing of the call: no key without its memory."""
    execute = asyncpg.Connection.execute

    async def cut_off(
        own: asyncpg.Connection[asyncpg.Record], query: str, *, timeout: float | None = None
    ) -> str:
        answer: str = await execute(own, query, timeout=timeout)
        if query == unanswered:
            raise asyncio.CancelledError
        return answer

    async def add() -> None:
        await memory.add("tea", idempotency_key="k", on_conflict="update", connection=connection)

    async with connection.transaction():
        with monkeypatch.context() as patch:
            patch.setattr(asyncpg.Connection, "execute", cut_off)
            with pytest.raises(asyncio.CancelledError):
                await add()
        await memory.store("tea time", connection=connection)
    assert await contents(memory) == ["tea time"]
    assert await connection.fetchval("SELECT count(*) FROM memory.idempotency_keys") == 0
    await add()
    assert await contents(memory) == ["tea", "tea time"]


async def test_cancelled_before_the_answer_to_begin(
    memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is given back without a transaction: the driver would complain of one, and end it."""
    execute = asyncpg.Connection.execute
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))

    async def cut_off(
        own: asyncpg.Connection[asyncpg.Record], query: str, *, timeout: float | None = None
    ) -> str:
        answer: str = await execute(own, query, timeout=timeout)
        if query == "BEGIN":
            raise asyncio.CancelledError
        return answer

    await memory.open()
    with monkeypatch.context() as patch:
        patch.setattr(asyncpg.Connection, "execute", cut_off)
        with pytest.raises(asyncio.CancelledError):
            await memory.add("tea", idempotency_key="k")
    await memory.add("tea", idempotency_key="k")
    assert complaints == []


async def test_blocks_within_blocks_are_transactions_of_their_own(memory: PostgresMemory) -> None:
    async with memory.transaction() as outer:
        await outer.store("tea outside")

        async def work() -> None:
            async with memory.transaction() as inner:
                await inner.store("tea inside")
                raise OurError

        with pytest.raises(OurError):
            await work()
        assert len(await outer.search("tea")) == 1
    assert await contents(memory) == ["tea outside"]


async def test_nothing_is_committed_in_silence_after_a_swallowed_failure(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    """PostgreSQL answers such a COMMIT with ROLLBACK, which is no error to the driver."""
    await connection.execute("ALTER TABLE memory.memories ADD CHECK (content <> 'coffee')")

    async def work() -> None:
        async with memory.transaction() as transaction:
            await transaction.store("tea")
            with pytest.raises(DatabaseError):
                await transaction.store("coffee")

    with pytest.raises(DatabaseError, match="rolled back"):
        await work()
    assert await contents(memory) == []
    await memory.store("tea")


async def test_nothing_is_committed_in_silence_after_a_swallowed_timeout(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with connection.transaction():
        await connection.execute("LOCK TABLE memory.memories IN EXCLUSIVE MODE")

        async def work() -> None:
            async with memory.transaction() as transaction:
                await transaction.search("tea")

                async def inner_work() -> None:
                    async with asyncio.timeout(0.1):
                        await transaction.store("tea")

                with pytest.raises(TimeoutError):
                    await inner_work()

        with pytest.raises(DatabaseError, match="rolled back"):
            await work()
    assert await contents(memory) == []


async def test_savepoints_in_the_callers_transaction(
    memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    """How a verb of several statements joins a transaction: also one that was begun by hand, also nested."""
    database = memory._context.database
    await connection.execute("BEGIN")
    await memory.store("tea", connection=connection)

    async def work() -> None:
        async with database.transaction(connection) as outer:
            await memory.store("tea outer", connection=outer)

            async def inner_work() -> None:
                async with database.transaction(outer) as inner:
                    await memory.store("tea inner", connection=inner)
                    raise OurError

            with pytest.raises(OurError):
                await inner_work()
            assert len(await memory.search("tea", connection=connection)) == 2
            raise OurError

    with pytest.raises(OurError):
        await work()
    async with database.transaction(connection) as kept:
        await memory.store("tea kept", connection=kept)
    await connection.execute("COMMIT")
    assert await contents(memory) == ["tea", "tea kept"]


async def test_the_verbs_are_over_after_the_block(memory: PostgresMemory) -> None:
    async with memory.transaction() as transaction:
        await transaction.store("tea")
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: transaction.search("tea"),
        lambda: transaction.search("tea", 0),
        lambda: transaction.store("more tea"),
        transaction.clear,
    ]
    for call in calls:
        with pytest.raises(UsageError, match="over"):
            await call()

    blocks: list[MemoryTransaction] = []

    async def work() -> None:
        async with memory.transaction() as failed:
            blocks.append(failed)
            raise OurError

    with pytest.raises(OurError):
        await work()
    with pytest.raises(UsageError, match="over"):
        await blocks[0].store("tea")
    assert await contents(memory) == ["tea"]


async def test_tasks_may_share_a_block(memory: PostgresMemory) -> None:
    async with memory.transaction() as transaction:
        await asyncio.gather(*(transaction.store(f"tea {number}") for number in range(30)))
        found = await asyncio.gather(*(transaction.search("tea", 99) for _ in range(5)))
        assert [len(entries) for entries in found] == [30] * 5
    assert len(await contents(memory)) == 30


async def test_a_task_that_outlives_the_block_writes_nothing(memory: PostgresMemory) -> None:
    async with memory.transaction() as transaction:
        late = [asyncio.create_task(transaction.store(f"tea {number}")) for number in range(5)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert all(outcome is None or isinstance(outcome, UsageError) for outcome in outcomes)
    assert len(await contents(memory)) == outcomes.count(None) < 5


async def test_close_inside_ones_own_block_is_refused_and_elsewhere_waits_for_it(database: Database) -> None:
    memory = PostgresMemory(database.dsn)
    async with memory.transaction() as transaction:
        with pytest.raises(UsageError, match="leave the block first"):
            async with asyncio.timeout(5):
                await memory.close()
        await transaction.store("tea")
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
    await closing
    async with PostgresMemory(database.dsn) as another:
        assert await contents(another) == ["tea"]
    await memory.close()
