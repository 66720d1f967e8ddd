"""`add`, `get`, `get_many`, `update` and `delete` on whole records."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings

from postgres_memory import PostgresMemory
from postgres_memory.embedding.hashing import hash_embedding
from postgres_memory.errors import (
    ConflictError,
    IdempotencyConflictError,
    InvalidInputError,
    InvalidTypeError,
    InvalidValueError,
    NotFoundError,
    VersionConflictError,
)
from postgres_memory.records import (
    MemoryPermissions,
    MemoryRecord,
    MemoryRelation,
    MemoryRelationType,
    MemoryType,
)
from tests.conftest import Database
from tests.factories import keys, records, texts

#: What the database sets.
SERVER_SET = ("updated_at", "version", "last_accessed", "access_count", "embedding")

on_one_database = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def without_server_set(record: MemoryRecord) -> MemoryRecord:
    first = MemoryRecord()
    return replace(record, **{name: getattr(first, name) for name in SERVER_SET})


async def count_rows(database: Database) -> int:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM memory.memories"))
    finally:
        await connection.close()


@on_one_database
@given(record=records)
async def test_a_record_comes_back_as_it_was_given(memory: PostgresMemory, record: MemoryRecord) -> None:
    stored = await memory.add(record)
    assert without_server_set(stored) == record
    assert stored.embedding == tuple(hash_embedding(record.content))
    assert await memory.get(record.id) == stored
    assert await memory.delete(record.id)


async def test_fields_and_defaults(memory: PostgresMemory) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    stored = await memory.add("The user prefers dark mode.")
    assert stored == await memory.get(stored.id)
    expected = MemoryRecord(id=stored.id, content="The user prefers dark mode.", created_at=stored.created_at)
    assert without_server_set(stored) == expected
    assert before < stored.created_at < datetime.now(UTC) + timedelta(minutes=1)
    assert stored.updated_at == stored.created_at


async def test_a_naive_time_is_local_and_an_offset_is_kept_as_an_instant(memory: PostgresMemory) -> None:
    naive = datetime(2024, 5, 1, 12, 30, 15, 123456)
    stored = await memory.add("x", created_at=naive)
    assert stored.created_at == naive.astimezone(UTC)
    far = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=9)))
    stored = await memory.add("x", created_at=far)
    assert (stored.created_at, stored.created_at.tzinfo) == (far, UTC)
    assert (await memory.get(stored.id)).created_at == far


async def test_a_record_of_the_default_namespace_is_taken_over_and_another_refused(
    database: Database,
) -> None:
    async with PostgresMemory(database.dsn, namespace="mine") as memory:
        assert (await memory.add(MemoryRecord(content="x"))).namespace == "mine"
        assert (await memory.add(MemoryRecord(content="x", namespace="mine"))).namespace == "mine"
        with pytest.raises(InvalidValueError, match="namespace"):
            await memory.add(MemoryRecord(content="x", namespace="theirs"))
    assert await count_rows(database) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"importance": 1.5}, InvalidValueError, "importance"),
        ({"importance": float("nan")}, InvalidValueError, "importance"),
        ({"confidence": -0.1}, InvalidValueError, "confidence"),
        ({"importance": True}, InvalidTypeError, "importance"),
        ({"tags": "one"}, InvalidTypeError, "tags"),
        ({"tags": ["a", ""]}, InvalidValueError, r"tags\[1\]"),
        ({"id": ""}, InvalidValueError, "id"),
        ({"id": "x" * 256}, InvalidValueError, "id"),
        ({"memory_type": "eternal"}, InvalidValueError, "memory_type"),
        ({"metadata": {"a": {1, 2}}}, InvalidInputError, r'metadata\["a"\]'),
        ({"created_at": "yesterday"}, InvalidTypeError, "created_at"),
        ({"created_at": datetime.min.replace(tzinfo=UTC)}, InvalidValueError, "created_at"),
        ({"expires_at": datetime.max.replace(tzinfo=UTC)}, InvalidValueError, "expires_at"),
        ({"permissions": "me"}, InvalidTypeError, "permissions"),
        ({"relations": ["x"]}, InvalidTypeError, r"relations\[0\]"),
        ({"thread_id": 5}, InvalidTypeError, "thread_id"),
        ({"on_conflict": "replace"}, InvalidValueError, "on_conflict"),
        ({"dedupe": "id"}, InvalidValueError, "dedupe"),
        ({"derived_from": "abc"}, InvalidTypeError, "derived_from"),
        ({"idempotency_key": ""}, InvalidValueError, "idempotency_key"),
        ({"filter": 1}, TypeError, "filter"),
        ({"embedding": (0.0,) * 32}, TypeError, "embedding"),
    ],
)
async def test_bad_fields_are_refused_before_anything_is_written(
    memory: PostgresMemory, database: Database, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        await memory.add("x", **cast(Any, arguments))
    assert await count_rows(database) == 0


async def test_a_record_takes_no_fields_and_a_wrong_embedding_is_refused(memory: PostgresMemory) -> None:
    with pytest.raises(TypeError, match="not both"):
        await memory.add(MemoryRecord(content="x"), importance=0.1)
    with pytest.raises(InvalidValueError, match="embedding"):
        await memory.add(MemoryRecord(content="hello", embedding=(0.0,) * 32))
    with pytest.raises(InvalidValueError, match="supersedes"):
        await memory.add(MemoryRecord(content="hello", supersedes="a"))
    right = MemoryRecord(content="hello", embedding=tuple(hash_embedding("hello")))
    assert (await memory.add(right)).embedding == right.embedding


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memory.memories SET importance = 1.01",
        "UPDATE memory.memories SET confidence = 'NaN'",
        "UPDATE memory.memories SET status = 'gone'",
        "UPDATE memory.memories SET memory_type = 'eternal'",
        "UPDATE memory.memories SET metadata = '[]'",
        "UPDATE memory.memories SET namespace = ''",
        "UPDATE memory.memories SET id = repeat('x', 256)",
        "UPDATE memory.memories SET version = 0",
        "UPDATE memory.memory_hash_embeddings SET status = 'gone'",
    ],
)
async def test_raw_sql_cannot_break_the_ranges(
    memory: PostgresMemory, database: Database, statement: str
) -> None:
    await memory.add("x")
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        with pytest.raises((asyncpg.CheckViolationError, asyncpg.ForeignKeyViolationError)):
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_relations_are_stored_with_the_memory_or_nothing_is(
    memory: PostgresMemory, database: Database
) -> None:
    target = await memory.add("target")
    relation = MemoryRelation(target.id, MemoryRelationType.SUPPORTS, 0.3, {"why": [1.0, None]}, "because")
    stored = await memory.add("source", relations=[relation])
    assert stored.relations == (relation,)
    assert await memory.get(stored.id) == stored
    for relations in ([relation, MemoryRelation("missing", MemoryRelationType.EXTENDS)],):
        with pytest.raises(NotFoundError, match="'missing'") as caught:
            await memory.add("other", relations=relations)
        assert caught.value.ids == ("missing",)
    with pytest.raises(InvalidValueError, match="itself"):
        await memory.add("other", id="me", relations=[MemoryRelation("me", MemoryRelationType.EXTENDS)])
    with pytest.raises(InvalidValueError, match="same type"):
        await memory.add("other", relations=[relation, replace(relation, confidence=1.0)])
    assert await count_rows(database) == 2
    await memory.delete(target.id)
    assert (await memory.get(stored.id)).relations == ()


async def test_a_synthetic_memory_says_where_it_came_from(memory: PostgresMemory) -> None:
    sources = [(await memory.add(text)).id for text in ("one", "two")]
    made = await memory.add("both", memory_type=MemoryType.SYNTHETIC, derived_from=sources)
    assert {(relation.target_id, relation.relation_type, relation.label) for relation in made.relations} == {
        (source, MemoryRelationType.EXTENDS, "derived") for source in sources
    }


async def test_conflicts_by_id(memory: PostgresMemory) -> None:
    first = await memory.add("first", id="a", tags=["kept"])
    with pytest.raises(ConflictError) as caught:
        await memory.add("second", id="a")
    assert caught.value.id == "a"
    assert await memory.add("second", id="a", on_conflict="ignore") == first
    updated = await memory.add("second", id="a", on_conflict="update", importance=0.9)
    assert (updated.content, updated.importance, updated.tags, updated.version) == ("second", 0.9, (), 2)
    assert updated.created_at == first.created_at
    assert updated.embedding == tuple(hash_embedding("second"))
    assert [entry.content for entry in await memory.search("second")] == ["second"]
    assert (await memory.verify()).differences == ()


async def test_deduped_contents_are_stored_once_and_store_keeps_duplicates(memory: PostgresMemory) -> None:
    await memory.store("same")
    await memory.store("same")
    one = await memory.add("same", dedupe="content")
    assert await memory.add("same", dedupe="content", importance=0.1) == one
    other_owner = await memory.add("same", dedupe="content", permissions=MemoryPermissions(owner="else"))
    assert other_owner.id != one.id
    assert len(await memory.search("same", 10)) == 4
    await memory.update(one.id, content="changed")
    assert (await memory.add("same", dedupe="content")).id != one.id
    assert (await memory.add("changed", dedupe="content")).id == one.id
    again = await memory.add("same", dedupe="content")
    with pytest.raises(ConflictError, match="same content"):
        await memory.update(again.id, content="changed")


async def test_dedupe_looks_at_memories_that_count(memory: PostgresMemory) -> None:
    past = datetime(2000, 1, 1, tzinfo=UTC)
    expired = await memory.add("gone", dedupe="content", expires_at=past)
    again = await memory.add("gone", dedupe="content")
    assert again.id != expired.id
    await memory.archive(again.id)
    third = await memory.add("gone", dedupe="content")
    assert third.id != again.id
    with pytest.raises(ConflictError, match="same content"):
        await memory.restore(again.id)
    assert await memory.add("gone", dedupe="content") == third
    await memory.update(third.id, expires_at=past)
    assert (await memory.add_many(["gone", "gone"], dedupe="content")).stored == 1


async def test_a_dedupe_race_stores_one_row(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        for round_ in range(5):
            found = await asyncio.gather(
                *(memory.add(f"text {round_}", dedupe="content") for memory in (one, two) for _ in range(8))
            )
            assert len({record.id for record in found}) == 1
            assert len(set(map(repr, found))) == 1
    assert await count_rows(database) == 5


async def test_an_idempotency_key_stores_once(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        found = await asyncio.gather(
            *(memory.add("paid 5", idempotency_key="k") for memory in (one, two) for _ in range(8))
        )
        assert len({record.id for record in found}) == 1
        with pytest.raises(IdempotencyConflictError) as caught:
            await one.add("paid 6", idempotency_key="k")
        assert (caught.value.key, caught.value.id) == ("k", found[0].id)
        assert await count_rows(database) == 1
        await one.delete(found[0].id)
        with pytest.raises(NotFoundError, match="deleted"):
            await one.add("paid 5", idempotency_key="k")
        assert await count_rows(database) == 0
    async with PostgresMemory(database.dsn, idempotency_ttl=timedelta(microseconds=1)) as short:
        ids = {(await short.add("brief", idempotency_key="b")).id for _ in range(2)}
        assert len(ids) == 2


async def test_a_failed_add_does_not_use_up_its_idempotency_key(memory: PostgresMemory) -> None:
    await memory.add("there", id="a")
    with pytest.raises(ConflictError):
        await memory.add("x", id="a", idempotency_key="k")
    with pytest.raises(NotFoundError):
        await memory.add(
            "x", relations=[MemoryRelation("no", MemoryRelationType.RELATED)], idempotency_key="k"
        )
    assert (await memory.add("x", idempotency_key="k")).content == "x"


async def test_a_call_joins_the_callers_transaction(memory: PostgresMemory, database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        added = await memory.add("x", idempotency_key="k", connection=connection)
        assert await memory.get(added.id, connection=connection) == added
        with pytest.raises(ConflictError):
            await memory.add("y", id=added.id, connection=connection)
        await memory.update(added.id, content="still usable", connection=connection)
        await transaction.rollback()
    finally:
        await connection.close()
    with pytest.raises(NotFoundError):
        await memory.get(added.id)
    assert (await memory.add("x", idempotency_key="k")).version == 1


async def test_update_changes_what_it_names(memory: PostgresMemory) -> None:
    first = await memory.add("old", metadata={"a": 1, "b": {"c": 1}}, tags=["x"], importance=0.2)
    merged = await memory.update(first.id, metadata={"b": 2}, metadata_mode="merge", expected_version=1)
    assert merged.metadata == {"a": 1, "b": 2}
    assert (merged.version, merged.tags, merged.content) == (2, ("x",), "old")
    replaced = await memory.update(
        first.id,
        metadata={"z": None},
        metadata_mode="replace",
        content="brand new",
        memory_type="session",
        permissions=MemoryPermissions("o", ("r",), ("w",)),
        expires_at=datetime(2999, 1, 1, tzinfo=UTC),
        thread_id="t",
        tags=[],
        confidence=0.5,
    )
    assert replaced == await memory.get(first.id)
    assert replaced.metadata == {"z": None}
    assert replaced.embedding == tuple(hash_embedding("brand new"))
    assert replaced.created_at == first.created_at
    assert first.updated_at is not None
    assert replaced.updated_at is not None
    assert replaced.updated_at > first.updated_at
    assert [entry.content for entry in await memory.search("brand new")] == ["brand new"]
    await memory.update(first.id, expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    assert await memory.search("brand new") == []


async def test_update_refuses_what_it_cannot_do(memory: PostgresMemory) -> None:
    record = await memory.add("x")
    with pytest.raises(VersionConflictError) as caught:
        await memory.update(record.id, content="y", expected_version=7)
    assert (caught.value.expected, caught.value.found) == (7, 1)
    with pytest.raises(NotFoundError):
        await memory.update("nobody", content="y", expected_version=1)
    with pytest.raises(TypeError, match="status"):
        await memory.update(record.id, **cast(Any, {"status": "archived"}))
    with pytest.raises(InvalidValueError, match="metadata_mode"):
        await memory.update(record.id, metadata={})
    with pytest.raises(InvalidValueError, match="metadata_mode"):
        await memory.update(record.id, content="y", metadata_mode="merge")
    with pytest.raises(InvalidValueError, match="changes"):
        await memory.update(record.id)
    assert await memory.get(record.id) == record


async def test_of_concurrent_updates_of_one_version_one_wins(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        record = await one.add("x")
        outcomes = await asyncio.gather(
            *(
                memory.update(record.id, importance=n / 20, expected_version=1)
                for n, memory in enumerate([one, two] * 8)
            ),
            return_exceptions=True,
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, MemoryRecord)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, VersionConflictError)]
        assert (len(won), len(lost)) == (1, 15)
        assert all(error.found == 2 for error in lost)
        assert await one.get(record.id) == won[0]


async def test_of_two_deleters_one_is_told_that_it_deleted(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn) as two:
        record = await one.add("x")
        assert sorted(await asyncio.gather(one.delete(record.id), two.delete(record.id))) == [False, True]
        with pytest.raises(NotFoundError):
            await one.get(record.id)
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        assert await connection.fetchval("SELECT count(*) FROM memory.memory_hash_embeddings") == 0
    finally:
        await connection.close()


async def test_get_many_keeps_the_order_asked_and_marks_the_missing(memory: PostgresMemory) -> None:
    a, b = await memory.add("a", id="a"), await memory.add("b", id="b")
    assert await memory.get_many(["b", "none", "a", "b"]) == [b, None, a, b]
    assert await memory.get_many([]) == []
    with pytest.raises(InvalidTypeError, match="ids"):
        await memory.get_many("ab")


async def test_a_session_memory_gets_the_lifetime_of_sessions(database: Database) -> None:
    async with PostgresMemory(database.dsn, session_ttl=timedelta(hours=1)) as memory:
        brief = await memory.add("x", memory_type=MemoryType.SESSION)
        assert brief.expires_at is not None
        assert brief.expires_at - brief.created_at == timedelta(hours=1)
        given = datetime(2999, 1, 1, tzinfo=UTC)
        assert (await memory.add("x", memory_type="session", expires_at=given)).expires_at == given
        assert (await memory.add("x")).expires_at is None


@given(keys, texts)
@settings(max_examples=50)
def test_a_relation_and_a_permission_check_their_parts(key: str, text: str) -> None:
    assert MemoryRelation(key, MemoryRelationType.RELATED).target_id == key
    with pytest.raises(InvalidInputError):
        MemoryRelation(key, cast(Any, text + "!"))
    with pytest.raises(InvalidInputError):
        MemoryPermissions(owner=key, readers=cast(Any, key))
