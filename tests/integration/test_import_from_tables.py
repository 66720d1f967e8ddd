"""`import_from` on the tables of peers: the mapping, again and after an interruption, what is bad by its place."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import tracemalloc
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory, SourceFailure, SourceResult, field
from postgres_memory._transfer.opening import Asked, opened
from postgres_memory.errors import ConfigurationError, InvalidTypeError, InvalidValueError, UsageError

from .command import COMMAND
from .peer_sources import LANGGRAPH, MEM0, PGMEMORY

if TYPE_CHECKING:
    from tests.conftest import Database, Server

IDS = [
    "9c53c2d1-693c-406f-94bd-2fafb7a641a4",
    "223c341d-72d8-46d6-86b3-bc8e16d6fdc6",
    "e28686e0-80a7-4056-9242-9b4c0f5ed2b7",
]


@pytest.fixture
async def source(server: Server) -> AsyncIterator[str]:
    """The DSN of another database, with a table of each peer, and pgvector."""
    name = await server.create_database("TEMPLATE template0 ENCODING 'UTF8'")
    await run(server.dsn_of(name), "CREATE EXTENSION vector;" + MEM0 + LANGGRAPH + PGMEMORY)
    yield server.dsn_of(name)
    await server.drop_database(name)


async def run(dsn: str, statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


async def everything(database: Database) -> list[Any]:
    """Every memory, expired ones too, oldest first: its id, version and what it says."""
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        rows = await connection.fetch(
            "SELECT id, version, content, metadata FROM memory.memories ORDER BY created_at, seq"
        )
    finally:
        await connection.close()
    return [(row["id"], row["version"], row["content"], json.loads(row["metadata"])) for row in rows]


def adds_up(result: SourceResult) -> bool:
    there = result.ignored + result.relations_ignored
    return result.read == (
        result.stored + result.relations + there + sum(result.skipped.values()) + result.failures
    )


async def test_mem0(memory: PostgresMemory, source: str) -> None:
    assert await memory.import_from("mem0", source) == SourceResult(read=3, stored=3)
    first, second, third = await memory.get_many(IDS)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.content, second.content, third.content) == (
        "I like tea.",
        "Noted: tea.",
        "Bob lives in Bergen",
    )
    assert first.metadata == {
        "n": 3,
        "source": "chat",
        "role": "user",
        "user_id": "alice",
        "agent_id": "bot",
        "actor_id": "alice",
        "run_id": "run-1",
    }
    assert first.session_id == "run-1"
    assert first.created_at == datetime(2026, 11, 30, 15, 14, 54, 680669, UTC)
    # It was updated, which mem0 says; and shown until its last day was over.
    assert third.metadata == {
        "role": "user",
        "user_id": "bob",
        "updated_at": "2026-11-30T15:14:55.009150+00:00",
    }
    assert third.expires_at == datetime(2100, 1, 1, tzinfo=UTC)
    assert third.session_id is None


async def test_langgraph(memory: PostgresMemory, database: Database, source: str) -> None:
    assert await memory.import_from("langgraph", source) == SourceResult(read=3, stored=3)
    assert await everything(database) == [
        (
            "langgraph/memories.alice/k1",
            1,
            "Alice prefers light mode",
            {
                "namespace": ["memories", "alice"],
                "key": "k1",
                "value": {"kind": "preference"},
                "updated_at": "2026-11-30T15:14:55.916068+00:00",
            },
        ),
        (
            "langgraph/memories.alice/k2",
            1,
            '{"food": "pizza", "rating": 5}',
            {"namespace": ["memories", "alice"], "key": "k2", "value": {"food": "pizza", "rating": 5}},
        ),
        (
            "langgraph/memories.bob/k1",
            1,
            "Bob is vegan",
            {"namespace": ["memories", "bob"], "key": "k1", "value": {"kind": "Memory"}},
        ),
    ]
    bob = await memory.get("langgraph/memories.bob/k1")
    assert bob.expires_at == datetime(2099, 11, 30, 16, 14, 55, 908073, UTC)


async def test_langgraph_keys_that_look_alike_stay_apart(memory: PostgresMemory, source: str) -> None:
    long = "k" * 300
    await run(
        source,
        """DELETE FROM store; INSERT INTO store (prefix, key, value) VALUES ('a', 'b/c', '{"text": "1"}'),
        ('a/b', 'c', '{"text": "2"}'), ('a', 'b%2Fc', '{"text": "3"}'), ('a', '"""
        + long
        + """', '{"text": "4"}'), ('b', '"""
        + long
        + """', '{"text": "5"}')""",
    )
    assert await memory.import_from("langgraph", source) == SourceResult(read=5, stored=5)
    assert await memory.import_from("langgraph", source) == SourceResult(read=5, ignored=5)


async def test_langgraph_text_where_the_caller_says(memory: PostgresMemory, source: str) -> None:
    result = await memory.import_from("langgraph", source, content_field="food")
    assert (result.stored, result.failures) == (1, 2)
    assert result.failed[0] == SourceFailure("row 'memories.alice' 'k1'", "the value has no text in 'food'")
    (pizza,) = await memory.find()
    assert (pizza.content, pizza.metadata["value"]) == ("pizza", {"rating": 5})


async def test_pgmemory(memory: PostgresMemory, source: str) -> None:
    assert await memory.import_from("pgmemory", source) == SourceResult(read=2, stored=2)
    alice = await memory.get("pgmemory/memory/1")
    assert (alice.content, alice.tags, alice.importance) == ("Alice wears size M", ("preference",), 0.8)
    assert (alice.session_id, alice.expires_at) == ("s-9", None)
    assert alice.created_at == datetime(2026, 11, 30, 15, 14, 59, 338780, UTC)
    assert alice.metadata == {
        "app_name": "shop",
        "user_id": "alice",
        "category": "preference",
        "source_event_id": "e-1",
        "source_role": "user",
        "source_event_timestamp": "2026-01-02T03:04:00+00:00",
        "metadata": {"a": {"b": 1}},
    }
    bob = await memory.get("pgmemory/memory/2")
    assert bob.expires_at == datetime(2026, 11, 30, 15, 14, 59, 498710, UTC)
    # It had expired there, and has here.
    assert [record.id for record in await memory.find()] == ["pgmemory/memory/1"]


@pytest.mark.parametrize("kind", ["mem0", "langgraph", "pgmemory"])
async def test_again_changes_nothing_and_update_takes_what_is_there(
    memory: PostgresMemory, database: Database, source: str, kind: Any
) -> None:
    tried = await memory.import_from(kind, source, dry_run=True)
    assert await everything(database) == []
    assert await memory.import_from(kind, source) == tried
    before = await everything(database)
    again = await memory.import_from(kind, source)
    assert (again.stored, again.ignored) == (0, tried.stored)
    assert await memory.import_from(kind, source, dry_run=True) == again
    assert await everything(database) == before
    refused = await memory.import_from(kind, source, on_conflict="error")
    assert (refused.failures, adds_up(refused)) == (len(before), True)
    assert await memory.import_from(kind, source, on_conflict="error", dry_run=True) == refused
    updated = await memory.import_from(kind, source, on_conflict="update")
    assert updated.stored == tried.stored
    assert [row[0] for row in await everything(database)] == [row[0] for row in before]


async def test_interrupted_goes_on(memory: PostgresMemory, database: Database, source: str) -> None:
    await run(
        source,
        """INSERT INTO mem0 SELECT gen_random_uuid(), NULL, jsonb_build_object('data', 'fact ' || n, 'created_at',
        '2027-01-01T00:00:' || lpad(n::text, 2, '0') || '+00:00') FROM generate_series(0, 59) n""",
    )

    def stop(read: int) -> None:
        if read >= 20:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        await memory.import_from("mem0", source, batch_size=10, progress=stop)
    assert await memory.count() == 20
    done: list[int] = []
    result = await memory.import_from("mem0", source, batch_size=10, progress=done.append)
    assert result == SourceResult(read=63, stored=43, ignored=20)
    assert done == [10, 20, 30, 40, 50, 60, 63]
    contents = [row[2] for row in await everything(database)]
    assert contents[3:] == [f"fact {n}" for n in range(60)]


async def test_bad_rows_are_named_and_the_others_stored(memory: PostgresMemory, source: str) -> None:
    await run(
        source,
        """INSERT INTO mem0 VALUES
        ('00000000-0000-0000-0000-000000000001', NULL, NULL),
        ('00000000-0000-0000-0000-000000000002', NULL, '[1]'),
        ('00000000-0000-0000-0000-000000000003', NULL, '{"memory": "x"}'),
        ('00000000-0000-0000-0000-000000000004', NULL, '{"data": "x", "created_at": "yesterday"}'),
        ('00000000-0000-0000-0000-000000000005', NULL, '{"data": "x", "expiration_date": "2026-02-30"}'),
        ('00000000-0000-0000-0000-000000000006', NULL, jsonb_build_object('data', repeat('x', 1048577))),
        ('00000000-0000-0000-0000-000000000007', NULL, jsonb_build_object('data', 'x', 'run_id', repeat('r', 256)))""",
    )
    named: list[SourceFailure] = []
    tried = await memory.import_from("mem0", source, dry_run=True)
    result = await memory.import_from("mem0", source, on_failure=named.append)
    assert result == tried
    assert (result.read, result.stored, result.failures) == (10, 3, 7)
    assert adds_up(result)
    assert list(result.failed) == named
    reasons = {failure.place[-1]: failure.reason for failure in named}
    assert {place: reasons[place] for place in "12345"} == {
        "1": "the payload is not an object",
        "2": "the payload is not an object",
        "3": "the payload has no text in data",
        "4": "created_at is not a time",
        "5": "expiration_date is not a date",
    }
    assert "1048576" in reasons["6"]
    assert "session_id" in reasons["7"]


async def test_only_some_rows(memory: PostgresMemory, source: str) -> None:
    await run(
        source, """INSERT INTO store (prefix, key, value) VALUES ('memories.alicea', 'k', '{"text": "x"}')"""
    )
    assert (await memory.import_from("mem0", source, only={"user_id": "alice", "role": "user"})).read == 1
    assert (await memory.import_from("langgraph", source, only={"prefix": "memories.alice"})).read == 2
    assert (await memory.import_from("langgraph", source, only={"prefix": "memories"})).read == 4
    assert (await memory.import_from("pgmemory", source, only={"user_id": "bob"})).read == 1
    for kind in ("mem0", "langgraph", "pgmemory"):
        with pytest.raises(InvalidValueError, match="only: of this source may name"):
            await memory.import_from(kind, source, only={"x' OR true --": "y"})


async def test_fields_out_of_the_metadata(memory: PostgresMemory, source: str) -> None:
    result = await memory.import_from("mem0", source, fields={"owner": "user_id", "thread_id": "run_id"})
    assert (result.stored, result.failures) == (2, 1)
    assert result.failed[0].reason == "the metadata has no text in 'run_id' for thread_id"
    record = await memory.get(IDS[0])
    assert (record.permissions.owner, record.thread_id) == ("alice", "run-1")
    await memory.import_from("langgraph", source, fields={"owner": "namespace.1"})
    assert (await memory.get("langgraph/memories.bob/k1")).permissions.owner == "bob"
    with pytest.raises(InvalidValueError, match="fields: may name owner, session_id, thread_id"):
        await memory.import_from("mem0", source, fields={"importance": "n"})


async def test_two_sources_with_the_same_keys(memory: PostgresMemory, source: str) -> None:
    await memory.import_from("pgmemory", source, id_prefix="eu/")
    assert (await memory.import_from("pgmemory", source, id_prefix="us/")).stored == 2
    found = await memory.find(filter=field("content") == "Alice wears size M")
    assert sorted(record.id for record in found) == ["eu/1", "us/1"]


async def test_tables_of_the_same_database_and_of_another_name(
    memory: PostgresMemory, database: Database
) -> None:
    named = MEM0.replace("mem0 ", '"old"."My Memories" ')
    await run(database.direct_dsn, "CREATE SCHEMA old;" + named)
    result = await memory.import_from("mem0", source_schema="old", table="My Memories")
    assert result == SourceResult(read=3, stored=3)


async def test_wrong_sources_are_refused(memory: PostgresMemory, source: str) -> None:
    with pytest.raises(InvalidValueError, match=r"table: there is no table public\.nothing in that database"):
        await memory.import_from("mem0", source, table="nothing")
    with pytest.raises(InvalidValueError, match=r"table: public\.store is no table of mem0"):
        await memory.import_from("mem0", source, table="store")
    with pytest.raises(InvalidValueError, match="kind: must be one of mem0, langgraph"):
        await memory.import_from("zep", source)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="content_field: is for langgraph"):
        await memory.import_from("mem0", source, content_field="x")
    with pytest.raises(ConfigurationError, match="source: must be a URL"):
        await memory.import_from("mem0", "mem0.db")
    with pytest.raises(InvalidTypeError, match="source: must be the DSN"):
        await memory.import_from("mem0", 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="import_from"):
        await memory.as_principal("alice").import_from("mem0", source)
    assert await memory.count() == 0


async def test_a_table_is_read_in_bounded_memory(memory: PostgresMemory, source: str) -> None:
    await run(
        source,
        """INSERT INTO mem0 SELECT gen_random_uuid(), NULL, jsonb_build_object('data', repeat('x', 100000))
        FROM generate_series(1, 1000)""",
    )
    tracemalloc.start()
    try:
        count = 0
        async for _ in opened(memory._context, "mem0", source, Asked()):
            count += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 1003
    assert peak < 50_000_000  # of a hundred million


async def test_two_imports_at_once_store_each_row_once(memory: PostgresMemory, source: str) -> None:
    await run(
        source,
        """INSERT INTO mem0 SELECT gen_random_uuid(), NULL, jsonb_build_object('data', 'fact ' || n)
        FROM generate_series(1, 200) n""",
    )
    results = await asyncio.gather(*(memory.import_from("mem0", source, batch_size=20) for _ in range(3)))
    assert sum(result.stored for result in results) == await memory.count() == 203
    assert all(adds_up(result) and not result.failures for result in results)


async def test_ctrl_c_says_how_far_it_got_and_the_same_command_goes_on(
    memory: PostgresMemory, database: Database, source: str
) -> None:
    await run(
        source,
        """INSERT INTO mem0 SELECT gen_random_uuid(), NULL, jsonb_build_object('data', 'fact ' || n)
        FROM generate_series(1, 20000) n""",
    )
    arguments = ["import", "--from", "mem0", "--source-dsn", source, "--dsn", database.dsn]
    process = await asyncio.create_subprocess_exec(*COMMAND, *arguments, stdout=PIPE, stderr=PIPE)
    while not await memory.count():  # noqa: ASYNC110 - another process makes it so
        await asyncio.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out) == (130, b"")
    said = re.fullmatch(
        r"postgres-memory: interrupted\npostgres-memory: stopped after (\d+) read: the same command goes on, "
        r"and stores nothing twice\n",
        err.decode(),
    )
    assert said is not None
    stored = await memory.count()
    assert int(said[1]) <= stored < 20003
    result = await memory.import_from("mem0", source)
    assert result == SourceResult(read=20003, stored=20003 - stored, ignored=stored)
