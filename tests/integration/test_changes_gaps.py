"""What might have left a gap in a feed that nobody is told of."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import asyncpg
import pytest

from postgres_memory import Change, Erased, PostgresMemory
from postgres_memory._sql.feed import CHANNEL, payload
from postgres_memory.errors import ChangesOffError, NotFoundError
from tests.conftest import Database

from .change_feeds import Follower, read, told
from .examined import healthy_database


async def test_turning_it_on_waits_for_prepared_transactions() -> None:
    """Also for one that was prepared while it waited for it to end."""
    async with healthy_database(max_prepared_transactions="4") as database:
        raw = await asyncpg.connect(database.direct_dsn)
        async with PostgresMemory(database.dsn) as memory:
            await raw.execute("BEGIN")
            await memory.add("unseen", id="before", connection=raw)
            await raw.execute("PREPARE TRANSACTION 'before'; BEGIN")
            await memory.add("unseen", id="meanwhile", connection=raw)
            enabling = asyncio.create_task(memory.enable_changes(notify=False))
            await asyncio.sleep(0.3)
            await raw.execute("PREPARE TRANSACTION 'meanwhile'")
            for name in ("before", "meanwhile"):
                await asyncio.sleep(0.6)
                assert not enabling.done()
                await raw.execute(f"COMMIT PREPARED '{name}'")
            since = await asyncio.wait_for(enabling, 10)
            assert {record.id for record in await memory.get_many(["before", "meanwhile"]) if record} == {
                "before",
                "meanwhile",
            }
            await raw.execute("BEGIN")
            await memory.add("late", id="late", connection=raw)
            await raw.execute("PREPARE TRANSACTION 'late'")
            await memory.add("early", id="early")
            reading = asyncio.create_task(read(memory, since))
            await asyncio.sleep(0.5)
            assert not reading.done()
            await raw.execute("COMMIT PREPARED 'late'")
            assert [change.id for change in await asyncio.wait_for(reading, 10)] == ["late", "early"]
        await raw.close()


async def test_who_follows_while_a_namespace_is_erased_is_told(memory: PostgresMemory) -> None:
    """However far erasing came: what is there of the feed is all of it, or there is none."""
    since = await memory.enable_changes()
    for number in range(6):
        await memory.add("x", id=f"{number}")
    outcomes: list[list[Change] | Exception] = []

    async def look() -> None:
        try:
            outcomes.append(await read(memory, since))
        except ChangesOffError as error:
            outcomes.append(error)

    looking: list[asyncio.Task[None]] = []

    def interrupt(erased: Erased) -> None:
        looking.append(asyncio.create_task(look()))
        if erased.changes:
            raise KeyError("interrupted")

    with pytest.raises(KeyError):
        await memory.erase(memory.namespace, batch_size=2, progress=interrupt)
    await asyncio.gather(*looking)
    assert outcomes
    assert all(isinstance(outcome, ChangesOffError) for outcome in outcomes)
    with pytest.raises(ChangesOffError):
        await read(memory, since)


async def test_what_is_heard_names_nobody_and_only_what_happened(
    memory: PostgresMemory, database: Database
) -> None:
    """Every login may listen: it learns no name of a namespace. What changes nothing wakes nobody."""
    await memory.enable_changes()
    await memory.add("x", id="a", idempotency_key="key")
    raw = await asyncpg.connect(database.direct_dsn)
    heard: list[object] = []
    await raw.add_listener(CHANNEL, lambda *said: heard.append(said[3]))
    await memory.delete("none")
    await memory.delete_many({"importance": 0.1})
    await memory.unrelate("a", "a", "supports")
    await memory.add("x", id="a", idempotency_key="key")
    assert (await memory.add_many([{"content": "x", "id": "a"}], on_conflict="ignore")).stored == 0
    assert (await memory.purge_expired()).memories == 0
    with pytest.raises(NotFoundError):
        await memory.update("none", importance=0.1)
    for call in (memory.supersede("none", "x"), memory.archive("none"), memory.restore("none")):
        with pytest.raises(NotFoundError):
            await call
    await memory.clear()
    await asyncio.sleep(0.2)
    assert heard == [payload("memory", memory.namespace)]
    assert memory.namespace not in str(heard)
    await raw.close()


@pytest.mark.parametrize(
    "event",
    [
        {"memory_id": ""},
        {"memory_id": "x" * 256},
        {"relation_type": "no such", "target_id": "b", "label": ""},
        {"relation_type": "related", "target_id": "x" * 256, "label": ""},
        {"relation_type": "related", "target_id": "b", "label": "x" * 256},
    ],
)
async def test_nobody_writes_what_a_feed_cannot_be_read_with(
    memory: PostgresMemory, database: Database, event: dict[str, str]
) -> None:
    """A login with the rights of a principal may insert, and must not stop who follows."""
    row = {"namespace": memory.namespace, "kind": "related", "memory_id": "a"} | event
    values = ", ".join(f"'{value}'" for value in row.values())
    raw = await asyncpg.connect(database.direct_dsn)
    with pytest.raises(asyncpg.CheckViolationError):
        await raw.execute(f"INSERT INTO memory.changes ({', '.join(row)}) VALUES ({values})")
    await raw.close()


async def test_an_import_that_waits_for_who_adds_the_same_updates_it(
    memory: PostgresMemory, database: Database
) -> None:
    """And one that waits for who deletes it adds it, whatever was there when it began."""
    await memory.enable_changes()
    for id_ in ("comes", "goes"):
        await memory.add("x", id=id_)
    file = io.BytesIO()
    await memory.export(file)
    file.seek(0)
    await memory.delete("comes")
    raw = await asyncpg.connect(database.direct_dsn)
    await raw.execute("BEGIN")
    await memory.add("x", id="comes", connection=raw)
    await memory.delete("goes", connection=raw)
    importing = asyncio.create_task(memory.import_(file, on_conflict="update"))
    await asyncio.sleep(0.5)
    assert not importing.done()
    await raw.execute("COMMIT")
    await asyncio.wait_for(importing, 10)
    assert told(await read(memory))[-2:] == [("updated", "comes", 2), ("added", "goes", 1)]
    await raw.close()


async def test_where_it_cannot_listen_it_leaves_no_connections_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is being demoted refuses to, for as long as following is tried again."""
    opened: list[asyncpg.Connection[asyncpg.Record]] = []
    listen = asyncpg.Connection.add_listener

    async def refused(connection: asyncpg.Connection[asyncpg.Record], *given: Any) -> None:
        opened.append(connection)
        if len(opened) < 5:
            raise asyncpg.ReadOnlySQLTransactionError("cannot execute LISTEN during recovery")
        await listen(connection, *given)

    monkeypatch.setattr(asyncpg.Connection, "add_listener", refused)
    async with PostgresMemory(database.direct_dsn, retry_for=30) as memory:
        await memory.enable_changes()
        await memory.add("x")
        follower = Follower(memory)
        await follower.until(1)
        assert [connection.is_closed() for connection in opened] == [True] * 4 + [False]
        await follower.stop()
        assert opened[-1].is_closed()
