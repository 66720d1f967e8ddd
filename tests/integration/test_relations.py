"""relate, unrelate, relations and contradictions on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory.errors import InvalidTypeError, InvalidValueError, NotFoundError, PostgresMemoryError
from postgres_memory.filters import field
from postgres_memory.graph_records import Relation
from postgres_memory.records import MemoryRelation, MemoryRelationType
from tests.conftest import Database
from tests.json_values import json_metadata, same_json

SUPPORTS, CONTRADICTS, EXTENDS, PRECEDES, FOLLOWS, RELATED = MemoryRelationType


async def add(memory: PostgresMemory, ids: Iterable[str], **fields: Any) -> None:
    for id_ in ids:
        await memory.add(f"memory {id_}", id=id_, **fields)


def triples(relations: Iterable[Relation]) -> list[tuple[str, str, str, bool]]:
    return [(r.source_id, r.relation_type.value, r.target_id, r.reversed) for r in relations]


async def test_relate_returns_what_is_stored(memory: PostgresMemory) -> None:
    await add(memory, "ab")
    made = await memory.relate("a", "b", "supports", label="cites", confidence=0.25, metadata={"n": 1e23})
    assert made == Relation("a", "b", SUPPORTS, 0.25, {"n": 1e23}, "cites")
    assert await memory.relations("a") == [made]
    record = await memory.get("a")
    assert record.relations == (MemoryRelation("b", SUPPORTS, 0.25, {"n": 1e23}, "cites"),)
    assert (record.version, (await memory.get("b")).relations) == (1, ())


async def test_the_same_key_is_replaced_and_another_label_is_another_relation(memory: PostgresMemory) -> None:
    await add(memory, "ab")
    await memory.relate("a", "b", EXTENDS, confidence=0.5, metadata={"old": True})
    await memory.relate("a", "b", EXTENDS, label="quotes", confidence=0.75)
    again = await memory.relate("a", "b", EXTENDS)
    assert await memory.relations("a") == [again, Relation("a", "b", EXTENDS, 0.75, {}, "quotes")]
    assert (again.confidence, again.metadata) == (1.0, {})


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [("a", "x", ("x",)), ("x", "a", ("x",)), ("x", "y", ("x", "y"))],
)
async def test_a_missing_end_is_named_and_nothing_is_written(
    memory: PostgresMemory, source: str, target: str, missing: tuple[str, ...]
) -> None:
    await add(memory, "a")
    with pytest.raises(NotFoundError) as raised:
        await memory.relate(source, target, RELATED)
    assert (raised.value.ids, raised.value.__cause__) == (missing, None)
    assert str(raised.value).endswith("in namespace 'default', and a relation needs both its ends")
    assert await memory.relations("a", direction="both") == []


async def test_relations_do_not_cross_namespaces(memory: PostgresMemory, database: Database) -> None:
    await add(memory, "ab")
    await memory.relate("a", "b", RELATED)
    async with PostgresMemory(database.dsn, namespace="other") as other:
        await add(other, "a")
        with pytest.raises(NotFoundError) as raised:
            await other.relate("a", "b", RELATED)
        assert (raised.value.ids, raised.value.namespace) == (("b",), "other")
        assert await other.relations("a", direction="both") == []
        assert not await other.unrelate("a", "b", RELATED)
    assert len(await memory.relations("a")) == 1


@pytest.mark.parametrize(
    ("arguments", "named", "kind"),
    [
        ({"target": "a"}, "target", InvalidValueError),
        ({"source": ""}, "source", InvalidValueError),
        ({"target": 7}, "target", InvalidTypeError),
        ({"type": "likes"}, "type", InvalidValueError),
        ({"type": None}, "type", InvalidTypeError),
        ({"label": "é" * 128}, "label", InvalidValueError),
        ({"label": "a\0"}, "label", InvalidValueError),
        ({"label": None}, "label", InvalidTypeError),
        ({"confidence": 1.01}, "confidence", InvalidValueError),
        ({"confidence": float("nan")}, "confidence", InvalidValueError),
        ({"confidence": True}, "confidence", InvalidTypeError),
        ({"metadata": {"when": datetime.now(UTC)}}, 'metadata["when"]', InvalidTypeError),
    ],
)
async def test_bad_arguments_are_refused_by_name(
    memory: PostgresMemory, arguments: dict[str, Any], named: str, kind: type[Exception]
) -> None:
    await add(memory, "ab")
    given = {"source": "a", "target": "b", "type": "supports"} | arguments
    with pytest.raises(kind) as raised:
        await memory.relate(**given)
    assert cast(Any, raised.value).argument == named
    assert await memory.relations("a", direction="both") == []


async def test_bad_questions_are_refused(memory: PostgresMemory) -> None:
    await add(memory, "a")
    with pytest.raises(InvalidValueError, match="direction"):
        await memory.relations("a", direction=cast(Any, "down"))
    with pytest.raises(InvalidTypeError, match="types"):
        await memory.relations("a", types="supports")
    with pytest.raises(InvalidTypeError, match="types"):
        await memory.relations("a", types=SUPPORTS)
    with pytest.raises(InvalidValueError, match=r"types\[1\]"):
        await memory.relations("a", types=["supports", "likes"])
    with pytest.raises(NotFoundError):
        await memory.relations("x", direction="both")


async def test_unrelate_removes_the_stored_relation_once(memory: PostgresMemory) -> None:
    await add(memory, "ab")
    await memory.relate("a", "b", PRECEDES)
    await memory.relate("a", "b", PRECEDES, label="kept")
    (read, kept) = await memory.relations("b")
    assert not await memory.unrelate(read.source_id, read.target_id, read.relation_type)
    stored = read.stored
    assert await memory.unrelate(stored.source_id, stored.target_id, stored.relation_type)
    assert not await memory.unrelate("a", "b", PRECEDES)
    assert await memory.relations("b") == [kept]


async def test_each_type_is_read_from_either_end(memory: PostgresMemory) -> None:
    await add(memory, "ab")
    for kind in MemoryRelationType:
        await memory.relate("a", "b", kind)
    inverted = [
        ("contradicts", True),
        ("follows", True),
        ("precedes", True),
        ("related", True),
    ]
    stored = [(kind, False) for kind in sorted(MemoryRelationType)]
    readings = {
        ("a", "out"): [("a", kind, "b", turned) for kind, turned in stored],
        ("b", "out"): [("b", kind, "a", turned) for kind, turned in inverted],
        ("b", "in"): [("a", kind, "b", turned) for kind, turned in stored],
        ("a", "in"): [("b", kind, "a", turned) for kind, turned in inverted],
        ("a", "both"): [("a", kind, "b", turned) for kind, turned in stored],
        ("b", "both"): [
            *(("b", kind, "a", turned) for kind, turned in inverted),
            ("a", "extends", "b", False),
            ("a", "supports", "b", False),
        ],
    }
    for (id_, direction), expected in readings.items():
        assert triples(await memory.relations(id_, direction=cast(Any, direction))) == expected, (
            id_,
            direction,
        )


async def test_precedes_reads_as_follows_and_says_how_it_is_stored(memory: PostgresMemory) -> None:
    await add(memory, "ab")
    stored = await memory.relate("a", "b", PRECEDES, label="chapter", confidence=0.5, metadata={"page": 3})
    (read,) = await memory.relations("b", types=[FOLLOWS])
    assert read == Relation("b", "a", FOLLOWS, 0.5, {"page": 3}, "chapter", reversed=True)
    assert read.stored == stored
    assert read.inverse() == stored
    assert stored.stored is stored
    assert await memory.relations("b", types=[PRECEDES]) == []
    assert await memory.relations("b", direction="both", types=[PRECEDES]) == [stored]
    assert await memory.relations("b", direction="both", types=[]) == []


def test_a_type_that_says_nothing_from_the_other_end_has_no_inverse() -> None:
    with pytest.raises(ValueError, match="SUPPORTS"):
        Relation("a", "b", SUPPORTS).inverse()


async def test_order_is_direction_type_label_and_the_other_id(memory: PostgresMemory) -> None:
    ids = ["a", "B", "b", "é", "Z"]
    await add(memory, ids)
    for other in reversed(ids[1:]):
        await memory.relate("a", other, SUPPORTS)
        await memory.relate(other, "a", SUPPORTS, label="y")
        await memory.relate(other, "a", SUPPORTS, label="X")
    found = [(r.source_id, r.label, r.target_id) for r in await memory.relations("a", direction="both")]
    in_order = sorted(ids[1:])
    assert found == [
        *(("a", "", other) for other in in_order),
        *((other, "X", "a") for other in in_order),
        *((other, "y", "a") for other in in_order),
    ]


stored_relations = st.dictionaries(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        st.sampled_from(MemoryRelationType),
        st.sampled_from(["", "l"]),
    ).filter(lambda key: key[0] != key[1]),
    st.tuples(st.floats(0, 1), json_metadata),
    max_size=8,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=stored_relations)
async def test_every_relation_is_read_as_it_was_stored(
    memory: PostgresMemory, graph: dict[Any, tuple[float, dict[str, Any]]]
) -> None:
    await memory.clear()
    await add(memory, "abc")
    for (source, target, kind, label), (confidence, metadata) in graph.items():
        await memory.relate(source, target, kind, label=label, confidence=confidence, metadata=metadata)
    for id_ in "abc":
        read = {"out": 0, "in": 0, "both": 0}
        for direction in read:
            for relation in await memory.relations(id_, direction=cast(Any, direction)):
                stored = relation.stored
                key = stored.source_id, stored.target_id, stored.relation_type, stored.label
                confidence, metadata = graph[key]
                assert relation.confidence == confidence
                assert same_json(relation.metadata, metadata) or relation.metadata == metadata
                assert id_ in (relation.source_id, relation.target_id)
                assert direction != "out" or relation.source_id == id_
                assert direction != "in" or relation.target_id == id_
                read[direction] += 1
        assert read["both"] == sum(id_ in (source, target) for source, target, *_ in graph)


async def test_deleting_a_memory_removes_its_relations(memory: PostgresMemory, database: Database) -> None:
    await add(memory, "abc")
    await memory.relate("a", "b", SUPPORTS)
    await memory.relate("b", "c", SUPPORTS)
    await memory.relate("a", "c", SUPPORTS)
    await memory.delete("b")
    assert triples(await memory.relations("a", direction="both")) == [("a", "supports", "c", False)]
    connection = await asyncpg.connect(database.direct_dsn)
    assert await connection.fetchval("SELECT count(*) FROM memory.memory_relations") == 1
    await connection.close()


async def test_it_joins_a_transaction_of_the_caller(memory: PostgresMemory, database: Database) -> None:
    await add(memory, "ab")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        made = await memory.relate("a", "b", SUPPORTS, connection=connection)
        assert await memory.relations("a", connection=connection) == [made]
        assert await memory.relations("a") == []
        await transaction.rollback()
    finally:
        await connection.close()
    assert await memory.relations("a") == []
    async with memory.transaction() as inside:
        await inside.add("c", id="c")
        await inside.relate("c", "a", EXTENDS)
        with pytest.raises(NotFoundError):
            await inside.relate("c", "x", EXTENDS)
    assert triples(await memory.relations("c")) == [("c", "extends", "a", False)]


async def test_many_tasks_relating_the_same_two_leave_one_relation(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        await add(one, "ab")
        made = await asyncio.gather(
            *(
                memory.relate("a", "b", SUPPORTS, confidence=n / 20, metadata={"n": n})
                for n in range(20)
                for memory in (one, two)
            )
        )
        (left,) = await one.relations("a")
        assert left in made
        removed = await asyncio.gather(
            *(memory.unrelate("a", "b", SUPPORTS) for _ in range(5) for memory in (one, two))
        )
    assert sum(removed) == 1


@pytest.mark.parametrize("end", ["source", "target"])
async def test_an_end_that_is_being_deleted_is_named(
    memory: PostgresMemory, database: Database, end: str
) -> None:
    await add(memory, ["stays", "goes"])
    source, target = ("goes", "stays") if end == "source" else ("stays", "goes")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        deleting = connection.transaction()
        await deleting.start()
        await memory.delete("goes", connection=connection)
        relating = asyncio.create_task(memory.relate(source, target, SUPPORTS))
        await waits_for_a_lock(connection)
        await deleting.commit()
        with pytest.raises(NotFoundError) as raised:
            await relating
    finally:
        await connection.close()
    assert raised.value.ids == ("goes",)
    assert await memory.relations("stays", direction="both") == []


async def waits_for_a_lock(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Return when a statement of this database waits for a lock."""
    query = """SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    async with asyncio.timeout(20):
        while not await connection.fetchval(query):
            # Inside a transaction, what the statistics say is kept otherwise.
            await connection.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.02)


async def test_relating_and_deleting_at_once_leaves_no_orphan(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for _ in range(15):
            await add(one, "ab")
            outcome = await asyncio.gather(
                one.relate("a", "b", RELATED), two.delete("b"), return_exceptions=True
            )
            assert isinstance(outcome[0], Relation | NotFoundError)
            assert outcome[1] is True
            assert await one.relations("a", direction="both") == []
            await one.delete("a")


async def test_contradictions_come_once_and_in_order(memory: PostgresMemory) -> None:
    await add(memory, "abcd")
    await memory.relate("b", "a", CONTRADICTS, confidence=0.5, metadata={"why": "dates"})
    await memory.relate("a", "b", CONTRADICTS, confidence=0.75)
    await memory.relate("a", "b", CONTRADICTS, label="tone", confidence=0.25)
    await memory.relate("d", "c", CONTRADICTS)
    await memory.relate("c", "a", CONTRADICTS, confidence=0.75)
    await memory.relate("a", "d", SUPPORTS)
    found = await memory.contradictions()
    assert [(pair.first.id, pair.second.id, pair.confidence) for pair in found] == [
        ("c", "d", 1.0),
        ("a", "b", 0.75),
        ("a", "c", 0.75),
    ]
    assert found[1].relations == (
        Relation("a", "b", CONTRADICTS, 0.75),
        Relation("b", "a", CONTRADICTS, 0.5, {"why": "dates"}),
        Relation("a", "b", CONTRADICTS, 0.25, {}, "tone"),
    )
    assert found[0].first.content == "memory c"
    assert found[0].first.relations == ()
    assert await memory.contradictions(limit=2) == found[:2]
    assert await memory.contradictions(limit=0) == []
    with pytest.raises(InvalidValueError, match="limit"):
        await memory.contradictions(limit=-1)


async def test_contradictions_are_between_memories_that_count(
    memory: PostgresMemory, database: Database
) -> None:
    await add(memory, "abc", tags=["x"])
    await add(memory, ["old"], expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await add(memory, ["plain"])
    for target in ("b", "c", "old", "plain"):
        await memory.relate("a", target, CONTRADICTS)
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute("UPDATE memory.memories SET status = 'superseded' WHERE id = 'c'")
    await connection.close()

    async def pairs(filter_: Any = None) -> list[tuple[str, str]]:
        return [(pair.first.id, pair.second.id) for pair in await memory.contradictions(filter_)]

    assert await pairs() == [("a", "b"), ("a", "plain")]
    assert await pairs(field("tags").contains_any(["x"])) == [("a", "b")]
    assert await pairs({"status": {"$in": ["active", "superseded"]}, "tags": {"$containsAny": ["x"]}}) == [
        ("a", "b"),
        ("a", "c"),
    ]
    with pytest.raises(PostgresMemoryError, match="filter"):
        await pairs({"nothing": 1})
