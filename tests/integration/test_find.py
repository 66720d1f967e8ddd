"""`find` and `count`: pages in a total order that survive what happens between them, at the same cost each."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory._recall.find import Order
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.listing import find_memories
from postgres_memory._sql.predicates import prepare_filter
from postgres_memory.errors import InvalidTypeError, InvalidValueError, PostgresMemoryError
from postgres_memory.filters import And, field
from postgres_memory.listing_records import Page
from postgres_memory.records import MemoryRecord, MemoryRelation, MemoryRelationType, MemoryType
from tests.conftest import Database

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
ORDERS: list[Order] = [
    "created_at",
    "-created_at",
    "updated_at",
    "-updated_at",
    "importance",
    "-importance",
]


async def all_pages(memory: PostgresMemory, **question: Any) -> list[MemoryRecord]:
    found: list[MemoryRecord] = []
    page = await memory.find(**question)
    while True:
        found += page
        if page.cursor is None:
            return found
        assert len(page) == question["limit"]
        page = await memory.find(**question, cursor=page.cursor)


async def test_a_page_holds_whole_records(memory: PostgresMemory) -> None:
    target = await memory.add("target")
    await memory.add(
        "whole",
        tags=["a"],
        metadata={"n": 1.0},
        relations=[MemoryRelation(target.id, MemoryRelationType.SUPPORTS, 0.5, {"k": 1})],
        memory_type=MemoryType.SYNTHETIC,
        thread_id="t",
    )
    page = await memory.find()
    assert page == Page(page.items, None)
    assert [record.content for record in page] == ["whole", "target"]
    assert len(page) == 2
    for record in page:
        assert record == await memory.get(record.id)
    assert (await memory.find(limit=1, filter={"thread_id": "nobody"})) == Page((), None)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9), st.integers(1, 4))
async def test_pages_are_one_total_order(
    memory: PostgresMemory, order: Order, places: list[tuple[int, int]], limit: int
) -> None:
    await memory.clear()
    for time, importance in places:
        await memory.add("x", created_at=NOON + timedelta(microseconds=time), importance=importance / 2)
    stored = await all_pages(memory, order_by="created_at", limit=100)
    in_order_of_insertion = sorted(stored, key=lambda record: record.id)  # UUIDv7 of one process
    column = order.removeprefix("-")
    expected = sorted(in_order_of_insertion, key=lambda record: cast(Any, getattr(record, column)))
    if order.startswith("-"):
        expected.reverse()  # equal values too
    assert await all_pages(memory, order_by=order, limit=limit) == expected


@pytest.mark.parametrize("order", ORDERS)
async def test_nothing_is_lost_or_seen_twice_while_others_write(memory: PostgresMemory, order: Order) -> None:
    at_once = {"created_at": NOON, "importance": 0.5}
    first = [(await memory.add("old", id=f"old{n}", **cast(Any, at_once))).id for n in range(12)]
    removed = {"old3", "old9"}
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await memory.find(order_by=order, limit=3, cursor=cursor)
        seen += [record.id for record in page]
        cursor = page.cursor
        if cursor is None:
            break
        await memory.add("new", created_at=NOON, importance=0.5)
        await memory.add("new", created_at=NOON + timedelta(seconds=1), importance=1)
        await memory.add("new", created_at=NOON - timedelta(seconds=1), importance=0)
        for id_ in removed:
            await memory.delete(id_)
        if len(seen) > 200:
            # Oldest first meets what is being added; it need not end before the writer does.
            break
    assert len(seen) == len(set(seen))
    kept = [id_ for id_ in first if id_ not in removed]
    in_order = [id_ for id_ in seen if id_ in kept]
    assert in_order == (kept[::-1] if order.startswith("-") else kept)


async def test_a_cursor_outlives_the_memory_it_points_at(memory: PostgresMemory) -> None:
    for n in range(4):
        await memory.add("x", id=f"{n}", created_at=NOON)
    page = await memory.find(order_by="created_at", limit=2)
    await memory.delete("1")
    rest = await memory.find(order_by="created_at", limit=2, cursor=page.cursor)
    assert [record.id for record in rest] == ["2", "3"]
    assert rest.cursor is None


async def test_a_cursor_is_text_for_any_url(memory: PostgresMemory) -> None:
    for n in range(3):
        await memory.add("x", importance=n / 3, created_at=datetime(1 + n * 4999, 1, 1, 1, tzinfo=UTC))
    for order in ORDERS:
        cursor = (await memory.find(order_by=order, limit=1)).cursor
        assert cursor is not None
        assert cursor.replace("-", "").replace("_", "").isalnum()
        assert len(cursor) < 60
        assert len(await memory.find(order_by=order, limit=5, cursor=cursor)) == 2


async def test_another_question_is_noticed(database: Database, memory: PostgresMemory) -> None:
    for _ in range(3):
        await memory.add("x", importance=0.7)
    question: dict[str, Any] = {"filter": field("importance") >= 0.5, "order_by": "importance", "limit": 1}
    cursor = (await memory.find(**question)).cursor
    assert len(await memory.find(**question | {"limit": 9}, cursor=cursor)) == 2
    same = question | {"filter": {"importance": {"$gte": 0.5}}}
    assert len(await memory.find(**same, cursor=cursor)) == 1
    others: list[dict[str, Any]] = [
        {"filter": None},
        {"filter": field("importance") >= 0.6},
        {"filter": field("importance") > 0.5},
        {"filter": field("confidence") >= 0.5},
        {"order_by": "-importance"},
        {"order_by": "created_at"},
        {"include_inactive": True},
    ]
    for other in others:
        with pytest.raises(InvalidValueError, match="belongs to another"):
            await memory.find(**question | other, cursor=cursor)
    async with PostgresMemory(database.dsn, namespace="other") as elsewhere:
        with pytest.raises(InvalidValueError, match="belongs to another"):
            await elsewhere.find(**question, cursor=cursor)


async def test_what_is_no_cursor_is_refused(memory: PostgresMemory) -> None:
    for _ in range(3):
        await memory.add("x")
    cursor = (await memory.find(limit=1)).cursor
    assert cursor is not None
    raw = bytearray(base64.urlsafe_b64decode(cursor + "="))
    damaged = []
    for position in range(len(raw)):
        changed = raw.copy()
        changed[position] ^= 1
        damaged.append(base64.urlsafe_b64encode(changed).decode().rstrip("="))
    for bad in [*damaged, "", "x", "é", cursor[:-2], cursor + "AAAA", " " + cursor, "=" * 47, "A" * 47]:
        with pytest.raises(InvalidValueError, match=r"^cursor: "):
            await memory.find(limit=1, cursor=bad)
    for wrong in (3, b"abc", object()):
        with pytest.raises(InvalidTypeError, match="cursor"):
            await memory.find(limit=1, cursor=cast(Any, wrong))


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"limit": 0}, InvalidValueError),
        ({"limit": -1}, InvalidValueError),
        ({"limit": 2.0}, InvalidTypeError),
        ({"limit": True}, InvalidTypeError),
        ({"order_by": "content"}, InvalidValueError),
        ({"order_by": "importance; --"}, InvalidValueError),
        ({"order_by": None}, InvalidValueError),
        ({"order_by": ["created_at"]}, InvalidValueError),
        ({"filter": {"topic": 1}}, InvalidValueError),
        ({"filter": "importance"}, InvalidTypeError),
        ({"filters": None}, TypeError),
    ],
)
async def test_bad_arguments(memory: PostgresMemory, arguments: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await memory.find(**arguments)


async def test_the_largest_limit(memory: PostgresMemory) -> None:
    await memory.add("x")
    assert len(await memory.find(limit=2**63 - 1)) == 1


async def test_which_memories_are_seen(memory: PostgresMemory) -> None:
    past, future = NOON - timedelta(days=10_000), NOON + timedelta(days=10_000)
    await memory.add("active")
    await memory.add("later", expires_at=future)
    await memory.add("expired", expires_at=past)
    for status in ("archived", "superseded"):
        await memory.add(MemoryRecord(content=status, status=cast(Any, status)))
    await memory.add(MemoryRecord(content="gone", status=cast(Any, "archived"), expires_at=past))

    async def seen(**question: Any) -> list[str]:
        found = [record.content for record in await memory.find(order_by="created_at", **question)]
        assert await memory.count(**question) == len(found)
        return sorted(found)

    everything = ["active", "archived", "expired", "gone", "later", "superseded"]
    assert await seen() == ["active", "later"]
    assert await seen(include_inactive=True) == everything
    assert await seen(filter=field("status") == "archived") == ["archived"]
    assert await seen(filter=field("status") != "active") == ["archived", "superseded"]
    assert await seen(filter={"$or": [{"status": "superseded"}, {"importance": 0.5}]}) == [
        "active",
        "archived",
        "later",
        "superseded",
    ]
    assert await seen(filter=field("expires_at").is_none()) == ["active"]
    assert await seen(filter=field("expires_at") < NOON, include_inactive=True) == ["expired", "gone"]
    assert await seen(filter=field("status") == "archived", include_inactive=True) == ["archived", "gone"]


async def test_namespaces_are_apart_and_transactions_joined(
    database: Database, memory: PostgresMemory
) -> None:
    await memory.add("mine")
    async with PostgresMemory(database.dsn, namespace="other") as other:
        assert (await other.find(include_inactive=True)).items == ()
        assert await other.count(include_inactive=True) == 0
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await memory.add("in there", connection=connection)
        assert await memory.count(connection=connection) == 2
        assert len(await memory.find(connection=connection)) == 2
        assert await memory.count() == 1
        await transaction.rollback()
    finally:
        await connection.close()
    async with memory.transaction() as inside:
        await inside.add("inside")
        assert [record.content for record in await inside.find(limit=1)] == ["inside"]


async def test_many_readers_at_once(database: Database, memory: PostgresMemory) -> None:
    for n in range(30):
        await memory.add("x", importance=(n % 3) / 2)
    async with PostgresMemory(database.dsn) as second:
        expected = await all_pages(memory, order_by="-importance", limit=100)
        walks = (all_pages(who, order_by="-importance", limit=4) for who in (memory, second) * 4)
        assert all(walk == expected for walk in await asyncio.gather(*walks))


@pytest.mark.parametrize("order", ORDERS)
async def test_the_order_is_not_the_plans(database: Database, memory: PostgresMemory, order: Order) -> None:
    """Equal values come in the order of insertion, also where rows lie in another one and are sorted, not looked up."""
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute(
            "INSERT INTO memory.memories (namespace, id, content) "
            "SELECT 'default', n, 'text' FROM generate_series(1, 300) AS n"
        )
        await connection.execute("UPDATE memory.memories SET version = 2 WHERE seq % 3 = 1")
        await connection.execute("UPDATE memory.memories SET version = 3 WHERE seq % 2 = 1")
        expected = [str(n) for n in range(1, 301)]
        if order.startswith("-"):
            expected.reverse()
        for setting in ("on", "off"):
            await connection.execute(f"SET enable_indexscan = {setting}; SET enable_bitmapscan = {setting}")
            found = await all_pages(memory, order_by=order, limit=7, connection=connection)
            assert [record.id for record in found] == expected
    finally:
        await connection.close()


ROWS = 6000


@pytest.fixture
async def many_rows(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute(
        f"""
        INSERT INTO memory.memories (namespace, id, content, importance, created_at, updated_at)
        SELECT namespace, 'id' || n, 'text', (n * 7919 % 101) / 100.0,
               timestamptz '2030-01-01' + (n / 3) * interval '1 second',
               timestamptz '2030-01-01' + (n * 7919 % {ROWS}) * interval '1 second'
        FROM generate_series(1, {ROWS}) AS n, (VALUES ('default'), ('other')) AS both_namespaces (namespace)
        """
    )
    await connection.execute("VACUUM ANALYZE memory.memories")
    yield connection
    await connection.close()


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", []) for node in nodes(inner))]


@pytest.mark.parametrize("order", ORDERS)
async def test_every_page_is_an_index_range(
    many_rows: asyncpg.Connection[asyncpg.Record], order: Order
) -> None:
    """Each page reads its own rows, and one more, from the index of the order; it sorts nothing and reads no table."""
    column, descending = order.removeprefix("-"), order.startswith("-")
    middle = await many_rows.fetchrow(
        f"SELECT {column}::text AS value, seq::text FROM memory.memories WHERE namespace = 'default' "
        f"ORDER BY {column}, seq OFFSET {ROWS // 2}"
    )
    assert middle is not None
    values = {
        "namespace": "default",
        "limit": "51",
        "after_value": middle["value"],
        "after_seq": middle["seq"],
    }
    shape = prepare_filter(And()).shape
    for mode in ("force_generic_plan", "force_custom_plan"):
        blocks = {}
        for continued in (False, True):
            statement = Catalog("memory", "public").statement(
                find_memories, order, continued, "active", shape, False, 64
            )
            arguments = ", ".join(f"'{values[name]}'" for name in statement.parameters)
            await many_rows.execute(f"SET plan_cache_mode = {mode}; PREPARE page AS {statement.sql}")
            text = await many_rows.fetchval(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE page ({arguments})"
            )
            await many_rows.execute("DEALLOCATE page")
            plan = json.loads(text)[0]["Plan"]
            found = nodes(plan)
            # The relations of each memory are aggregated in order, which sorts inside the aggregate.
            kinds = {node["Node Type"] for node in found if node.get("Subplan Name") is None}
            assert not kinds & {"Incremental Sort", "Seq Scan", "Hash Join", "Merge Join"}, kinds
            assert not any(node.get("Sort Key", [""])[0].startswith("memories.") for node in found)
            (scan,) = [node for node in found if node.get("Index Name") == f"memories_{column}_idx"]
            assert scan["Scan Direction"] == ("Backward" if descending else "Forward")
            assert scan["Actual Rows"] * scan["Actual Loops"] == 51
            assert scan.get("Rows Removed by Filter", 0) == 0
            assert ("ROW(" in scan["Index Cond"]) is continued
            (again,) = [node for node in found if node.get("Index Name") == "memories_seq_key"]
            assert again["Actual Loops"] == 51
            blocks[continued] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert blocks[True] < blocks[False] * 1.3


async def test_errors_of_the_database_are_ours(memory: PostgresMemory, database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("ALTER TABLE memory.memories RENAME TO hidden")
    await connection.close()
    for call in (memory.find, memory.count, memory.namespaces):
        with pytest.raises(PostgresMemoryError, match="memories"):
            await call()
    with pytest.raises(PostgresMemoryError, match="memories"):
        await memory.delete_many({"version": 1})
