"""The synchronous classes: the same verbs on one background loop, from any thread."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._background import BackgroundLoop, Call
from postgres_memory._delegation import Synchronous
from postgres_memory.errors import (
    ClosedError,
    EventLoopError,
    InvalidTypeError,
    InvalidValueError,
    NotFoundError,
    UsageError,
)
from postgres_memory.sync import SyncMemoryTransaction, SyncPostgresMemory, SyncPostgresSession
from tests.conftest import Database

HOWTO = Path(__file__).parent.parent.parent / "docs" / "howto" / "without-an-event-loop.md"


@pytest.fixture
def memory(database: Database) -> Iterator[SyncPostgresMemory]:
    with SyncPostgresMemory(database.dsn) as opened:
        yield opened


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "portal" in thread.name]


def contents(memory: SyncPostgresMemory) -> list[str]:
    return sorted(record.content for record in memory.find(limit=1000).items)


def test_the_verbs_answer(memory: SyncPostgresMemory) -> None:
    memory.store("The user prefers dark mode.", {"source": "chat"})
    (entry,) = memory.search("dark mode", limit=5)
    assert (entry.content, entry.metadata) == ("The user prefers dark mode.", {"source": "chat"})
    record = memory.add("a fact", tags=["x"])
    assert memory.get(record.id) == record
    assert memory.update(record.id, content="another").version == record.version + 1
    assert memory.namespace == "default"
    assert memory.delete(record.id) is True
    with pytest.raises(NotFoundError):
        memory.get(record.id)
    with pytest.raises(InvalidValueError, match="limit"):
        memory.search("x", -1)
    memory.clear()
    assert memory.count() == 0


def test_a_memory_has_one_synchronous_form(database: Database) -> None:
    memory = PostgresMemory(database.dsn, namespace="n")
    with ThreadPoolExecutor(4) as threads:
        forms = set(threads.map(lambda _: memory.sync, range(8)))
    assert forms == {memory.sync}
    memory.sync.store("text")
    assert [entry.content for entry in memory.sync.search("text")] == ["text"]
    memory.sync.close()
    with pytest.raises(ClosedError):
        asyncio.run(memory.count())


def test_the_session_answers(database: Database) -> None:
    with SyncPostgresSession(database.dsn, "s1") as session:
        session.add_messages([{"role": "user", "content": "hello"}])
        assert session.get_messages() == [{"role": "user", "content": "hello"}]
        assert session.session_id == "s1"


def test_threads_share_one_object_and_one_loop(database: Database) -> None:
    memory = SyncPostgresMemory(database.dsn, pool_max_size=4)
    barrier = threading.Barrier(16)

    def work(number: int) -> list[str]:
        barrier.wait()
        return [memory.add(f"{number} {n}").content for n in range(10)]

    with ThreadPoolExecutor(16) as threads:
        added = [content for result in threads.map(work, range(16)) for content in result]
    assert len(loop_threads()) == 1
    assert contents(memory) == sorted(added)
    memory.close()


def test_threads_adding_the_same_text_get_the_same_memory(memory: SyncPostgresMemory) -> None:
    with ThreadPoolExecutor(8) as threads:
        records = list(threads.map(lambda _: memory.add("same", dedupe="content"), range(24)))
    assert len({record.id for record in records}) == 1
    assert memory.count() == 1


def test_the_thread_ends_with_the_last_object(database: Database) -> None:
    assert loop_threads() == []
    first, second = SyncPostgresMemory(database.dsn), SyncPostgresSession(database.dsn)
    first.open()
    second.open()
    (thread,) = loop_threads()
    first.close()
    assert thread.is_alive()
    second.close()
    assert not thread.is_alive()
    first.close()
    with pytest.raises(ClosedError):
        first.count()
    with pytest.raises(ClosedError), first:
        pass


def test_closing_before_the_first_call(database: Database) -> None:
    memory = SyncPostgresMemory(database.dsn)
    memory.close()
    with pytest.raises(ClosedError):
        memory.count()
    assert loop_threads() == []


def test_calls_under_way_survive_or_are_refused_when_another_thread_closes(database: Database) -> None:
    memory = SyncPostgresMemory(database.dsn, pool_max_size=2)
    memory.open()
    started = threading.Event()

    def work(number: int) -> int:
        for n in range(1000):
            try:
                memory.store(f"{number} {n}")
            except ClosedError:
                return n
            started.set()
        return 1000

    with ThreadPoolExecutor(4) as threads:
        results = [threads.submit(work, number) for number in range(4)]
        started.wait()
        memory.close()
        acknowledged = sum(result.result(timeout=20) for result in results)
    with SyncPostgresMemory(database.dsn) as again:
        assert again.count() == acknowledged
    assert loop_threads() == []


async def test_in_a_running_loop_it_is_refused_and_in_a_thread_beside_it_works(database: Database) -> None:
    memory = SyncPostgresMemory(database.dsn)
    for attempt in (memory.open, memory.count, memory.close, memory.__enter__):
        with pytest.raises(UsageError, match="would block the event loop"):
            attempt()
    with pytest.raises(UsageError, match="would block"), memory.transaction():
        pass
    async with PostgresMemory(database.dsn) as beside:
        await asyncio.gather(*(asyncio.to_thread(memory.store, f"{n}") for n in range(8)), beside.store("x"))
        assert await beside.count() == 9
    await asyncio.to_thread(memory.close)


async def test_an_object_opened_on_another_loop_is_refused(database: Database) -> None:
    async with PostgresMemory(database.dsn) as opened:
        sync = opened.sync
        with pytest.raises(EventLoopError):
            await asyncio.to_thread(sync.count)
        with pytest.raises(EventLoopError):
            await asyncio.to_thread(sync.close)
        assert await opened.count() == 0
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool:
        with pytest.raises(UsageError, match="borrowed pool"):
            SyncPostgresMemory(cast(Any, pool))
        with pytest.raises(UsageError, match="borrowed pool"):
            _ = PostgresMemory(pool).sync
        async with pool.acquire() as connection:
            with pytest.raises(InvalidTypeError, match="connection: belongs to the event loop"):
                cast(Any, sync).count(connection=connection)


def test_a_transaction_is_a_block(memory: SyncPostgresMemory) -> None:
    with memory.transaction() as tx:
        assert isinstance(tx, SyncMemoryTransaction)
        kept = tx.add("kept")
        assert memory.count() == 0
        assert tx.count() == 1
    with pytest.raises(UsageError, match="over"):
        tx.count()
    with memory.transaction() as tx, ThreadPoolExecutor(4) as threads:
        list(threads.map(tx.store, "abcd"))
    assert contents(memory) == ["a", "b", "c", "d", kept.content]


def test_an_error_in_the_block_rolls_back_at_once(database: Database, memory: SyncPostgresMemory) -> None:
    def fail() -> None:
        with memory.transaction() as tx:
            tx.store("gone")
            assert asyncio.run(open_transactions(database.direct_dsn)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    # The error still holds the block's frame: no garbage collection did this.
    assert caught.traceback
    assert asyncio.run(open_transactions(database.direct_dsn)) == 0
    assert memory.count() == 0


async def open_transactions(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(
            await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
            )
        )
    finally:
        await connection.close()


def test_iterables_are_read_in_the_calling_thread(memory: SyncPostgresMemory) -> None:
    readers = set()

    def items(count: int) -> Iterator[str]:
        for n in range(count):
            readers.add(threading.get_ident())
            yield f"{n} of {memory.count()}"

    assert memory.add_many(items(250), batch_size=60).stored == 250
    assert memory.add_many(["one", "two"]).stored == 2
    assert memory.add_many(items(0)).stored == 0
    found = memory.find(limit=3).items
    assert memory.get_many(memory.get(record.id).id for record in found) == list(found)
    assert readers == {threading.get_ident()}
    # A cursor of sqlite3 refuses every other thread.
    with closing(sqlite3.connect(":memory:")) as other:
        cursor = other.execute("SELECT 'from ' || column1 FROM (VALUES ('a'), ('b'))")
        assert memory.add_many(content for (content,) in cursor).stored == 2
    with pytest.raises(InvalidTypeError, match="items"):
        memory.add_many(cast(Any, 5))


def test_an_error_of_the_iterable_is_raised_as_it_is(memory: SyncPostgresMemory) -> None:
    def items() -> Iterator[str]:
        yield from ("x" for _ in range(130))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.add_many(items(), batch_size=1000)
    assert memory.count() == 0
    memory.store("still usable")


@pytest.mark.parametrize("size", [10, 50, 957])
def test_whole_batches_before_an_error_of_the_iterable_are_stored(
    memory: SyncPostgresMemory, size: int
) -> None:
    def items() -> Iterator[str]:
        yield from (f"{n}" for n in range(957))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.add_many(items(), batch_size=size)
    assert memory.count() == 957 // size * size


def test_progress_is_called_in_the_calling_thread(memory: SyncPostgresMemory) -> None:
    calls: list[tuple[int, int, int]] = []

    def progress(done: int) -> None:
        calls.append((done, threading.get_ident(), memory.count()))

    memory.add_many((f"{n}" for n in range(20)), batch_size=10, progress=progress)
    assert calls
    assert calls[-1][0] == 20
    assert {thread for _, thread, _ in calls} == {threading.get_ident()}

    def fail(_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.add_many((f"{n}" for n in range(20)), batch_size=10, progress=fail)


def test_what_would_end_the_loop_reaches_the_caller_alone(memory: SyncPostgresMemory) -> None:
    async def leave(_: Call) -> None:
        raise SystemExit(3)

    async def nothing() -> None:
        pass

    other = BackgroundLoop(nothing)
    with pytest.raises(SystemExit):
        other.call(leave)
    other.close()
    assert memory.count() == 0


class Ticker:
    """Has what no verb has yet."""

    def __init__(self) -> None:
        self.ended = 0

    async def ticks(self, count: int) -> AsyncIterator[int]:
        try:
            for n in range(count):
                await asyncio.sleep(0)
                yield n
        finally:
            self.ended += 1

    def again(self) -> Ticker:
        return self

    async def close(self) -> None:
        pass


class SyncTicker(Synchronous, of=Ticker):
    ended: Any
    ticks: Any
    again: Any


def test_async_iterators_become_iterators() -> None:
    ticker = Ticker()
    background = BackgroundLoop(ticker.close)
    sync = SyncTicker._around(ticker, background)
    assert list(sync.ticks(3)) == [0, 1, 2]
    for n in sync.again().ticks(3):
        if n == 1:
            break
    assert ticker.ended == 2
    background.close()


def test_what_has_no_synchronous_form_is_noticed_when_the_class_is_made() -> None:
    class Odd:
        limit = 5

    with pytest.raises(TypeError, match=r"Odd\.limit"):
        type("SyncOdd", (Synchronous,), {}, of=Odd)


def test_help_shows_docstring_and_signature() -> None:
    text = pydoc.plain(pydoc.render_doc(SyncPostgresMemory.add))
    assert "content: 'str | MemoryRecord'" in text
    assert inspect.getdoc(PostgresMemory.add) == inspect.getdoc(SyncPostgresMemory.add)
    assert "connection" not in inspect.signature(SyncPostgresMemory.add).parameters
    assert not inspect.iscoroutinefunction(SyncPostgresMemory.add)
    assert "namespace: 'str' = 'default'" in str(inspect.signature(SyncPostgresMemory))


def test_the_representation_hides_the_password() -> None:
    shown = repr(SyncPostgresMemory("postgresql://me:secret@nowhere.invalid/db", namespace="n"))
    assert (
        shown == "SyncPostgresMemory(PostgresMemory('postgresql://me:***@nowhere.invalid/db', namespace='n'))"
    )


def test_examples_of_the_howto_run(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    examples = re.findall(r"^```python\n(.*?)^```$", HOWTO.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        exec(example, {"__name__": "example"})
    assert loop_threads() == []
