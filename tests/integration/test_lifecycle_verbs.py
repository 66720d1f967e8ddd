"""Replacing, restoring, archiving, walking versions, and removing what has expired."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory.errors import (
    ConflictError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
)
from postgres_memory.records import (
    MemoryRecord,
    MemoryRelation,
    MemoryRelationType,
    MemoryStatus,
    MemoryType,
)
from tests.conftest import Database
from tests.integration.lifecycle_states import add, found, replaced, statuses

ACTIVE, SUPERSEDED, ARCHIVED = MemoryStatus.ACTIVE, MemoryStatus.SUPERSEDED, MemoryStatus.ARCHIVED


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection beside the library."""
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


async def status_of_both_tables(raw: asyncpg.Connection[asyncpg.Record]) -> list[tuple[str, str, str]]:
    rows = await raw.fetch(
        "SELECT id, m.status, h.status FROM memory.memories m JOIN memory.memory_hash_embeddings h "
        "USING (namespace, seq) ORDER BY seq"
    )
    return [tuple(row) for row in rows]


async def test_supersede_stores_the_new_and_marks_the_old(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    old = await memory.add("Mira lives in Lisbon.", id="old", tags=("home",), importance=0.9)
    new = await memory.supersede("old", "Mira lives in Porto.", metadata={"by": "chat"})
    assert (new.supersedes, new.status, new.version) == ("old", ACTIVE, 1)
    assert (new.tags, new.importance, new.metadata) == ((), 0.5, {"by": "chat"})
    assert await memory.get(new.id) == new
    after = await memory.get("old")
    assert after.updated_at is not None
    assert old.updated_at is not None
    assert after.updated_at > old.updated_at
    assert after == replace(old, status=SUPERSEDED, version=2, updated_at=after.updated_at)
    assert [entry.content for entry in await memory.search("Mira lives")] == ["Mira lives in Porto."]
    assert await status_of_both_tables(raw) == [
        ("old", "superseded", "superseded"),
        (new.id, "active", "active"),
    ]


async def test_a_whole_record_with_relations_can_replace(memory: PostgresMemory) -> None:
    await add(memory, "old", "witness")
    relations = (
        MemoryRelation("old", MemoryRelationType.CONTRADICTS),
        MemoryRelation("witness", MemoryRelationType.SUPPORTS),
    )
    given = MemoryRecord("new", "fact new", relations=relations, memory_type=MemoryType.SYNTHETIC)
    new = await memory.supersede("old", given)
    assert (new.relations, new.supersedes, new.created_at) == (given.relations, "old", given.created_at)
    assert await memory.get("new") == new


async def test_supersede_refuses_what_is_not_there_or_not_active(memory: PostgresMemory) -> None:
    with pytest.raises(NotFoundError) as missing:
        await memory.supersede("nobody", "new")
    assert missing.value.ids == ("nobody",)
    await add(memory, "a", "z")
    await memory.supersede("a", "fact b", id="b")
    with pytest.raises(ConflictError, match="was superseded already") as superseded:
        await memory.supersede("a", "fact c")
    assert superseded.value.id == "a"
    await memory.archive("b")
    with pytest.raises(ConflictError, match="is archived") as archived:
        await memory.supersede("b", "fact c")
    assert archived.value.id == "b"
    with pytest.raises(ConflictError, match="'a' already") as taken:
        await memory.supersede("z", "fact", id="a")
    assert taken.value.id == "a"
    relation = MemoryRelation("nobody", MemoryRelationType.RELATED)
    with pytest.raises(NotFoundError, match="a relation needs both its ends") as target:
        await memory.supersede("z", "fact", relations=[relation])
    assert target.value.ids == ("nobody",)
    assert await statuses(memory, "z") == [("z", "active")]
    assert (await memory.get("z")).version == 1
    assert await statuses(memory, "b") == [("a", "superseded"), ("b", "archived")]


async def test_supersede_checks_its_arguments(memory: PostgresMemory) -> None:
    await add(memory, "a")
    bad: list[tuple[Any, Any, dict[str, Any], str]] = [
        (1, "x", {}, "old_id"),
        ("", "x", {}, "old_id"),
        ("a", "x", {"id": "a"}, "id"),
        ("a", None, {}, "content"),
        ("a", "x", {"importance": 2}, "importance"),
        ("a", MemoryRecord(content="x", status=ARCHIVED), {}, "status"),
        ("a", MemoryRecord(content="x", namespace="other"), {}, "namespace"),
        ("a", MemoryRecord(content="x", supersedes="b"), {}, "supersedes"),
    ]
    for old_id, new, fields, argument in bad:
        with pytest.raises(InvalidInputError) as refused:
            await memory.supersede(old_id, new, **cast(Any, fields))
        assert refused.value.argument == argument
    with pytest.raises(TypeError, match=r"supersede\(\) got an unexpected keyword argument 'importnace'"):
        await memory.supersede("a", "x", **cast(Any, {"importnace": 0.5}))
    assert await statuses(memory, "a") == [("a", "active")]


async def test_restore_takes_a_supersede_back_and_keeps_the_link(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a")
    await replaced(memory, "a", "b")
    restored = await memory.restore("a")
    assert (restored.status, restored.version) == (ACTIVE, 3)
    assert restored == await memory.get("a")
    replacement = await memory.get("b")
    assert (replacement.status, replacement.version, replacement.supersedes) == (ARCHIVED, 2, "a")
    assert await found(memory) == ["fact a"]
    assert await status_of_both_tables(raw) == [("a", "active", "active"), ("b", "archived", "archived")]
    assert await memory.restore("a") == restored  # nothing to do: nothing changes
    await replaced(memory, "a", "c")
    expected = [("a", "superseded"), ("b", "archived"), ("c", "active")]
    for id_ in "abc":
        assert await statuses(memory, id_) == expected


async def test_restore_is_refused_when_the_replacement_was_superseded(memory: PostgresMemory) -> None:
    await add(memory, "a")
    await replaced(memory, "a", "b", "c")
    with pytest.raises(ConflictError, match="itself superseded") as refused:
        await memory.restore("a")
    assert refused.value.id == "b"
    assert await statuses(memory, "a") == [("a", "superseded"), ("b", "superseded"), ("c", "active")]
    await memory.restore("b")
    await memory.restore("a")
    assert await statuses(memory, "a") == [("a", "active"), ("b", "archived"), ("c", "archived")]


async def test_restore_never_makes_a_second_active_version(memory: PostgresMemory) -> None:
    await add(memory, "a")
    await replaced(memory, "a", "b")
    await memory.restore("a")
    with pytest.raises(ConflictError, match="'a', another version of 'b', is active") as refused:
        await memory.restore("b")
    assert refused.value.id == "a"
    await memory.archive("a")
    assert (await memory.restore("b")).status is ACTIVE
    assert await statuses(memory, "a") == [("a", "archived"), ("b", "active")]
    with pytest.raises(NotFoundError):
        await memory.restore("nobody")


async def test_a_version_farther_away_is_in_the_way_too(memory: PostgresMemory) -> None:
    await add(memory, "x")
    await replaced(memory, "x", "b")
    await memory.restore("x")
    await replaced(memory, "x", "c", "d")
    await memory.archive("d")
    await memory.restore("b")
    with pytest.raises(ConflictError, match="'b', another version of 'c'"):
        await memory.restore("c")


async def test_archive_hides_and_restore_brings_back(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    before = await memory.add("fact a", id="a")
    archived = await memory.archive("a")
    assert archived == replace(before, status=ARCHIVED, version=2, updated_at=archived.updated_at)
    assert await memory.archive("a") == archived
    assert await found(memory) == []
    assert await status_of_both_tables(raw) == [("a", "archived", "archived")]
    restored = await memory.restore("a")
    assert (restored.status, restored.version) == (ACTIVE, 3)
    assert await found(memory) == ["fact a"]
    with pytest.raises(NotFoundError):
        await memory.archive("nobody")
    with pytest.raises(InvalidTypeError, match="id"):
        await memory.archive(cast(Any, None))


async def test_history_is_divided_by_deletion_and_ends_in_a_circle(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a")
    await replaced(memory, "a", "b", "c")
    whole = await memory.history("b")
    assert whole == [await memory.get(id_) for id_ in "abc"]
    await raw.execute("UPDATE memory.memories SET supersedes = 'c' WHERE id = 'a'")
    for id_ in "abc":
        assert [record.id for record in await memory.history(id_)] == ["a", "b", "c"]
    await raw.execute("UPDATE memory.memories SET supersedes = NULL WHERE id = 'a'")
    await memory.delete("b")
    assert [record.id for record in await memory.history("a")] == ["a"]
    assert [(record.id, record.supersedes) for record in await memory.history("c")] == [("c", None)]
    with pytest.raises(NotFoundError):
        await memory.history("b")


async def test_namespaces_do_not_see_each_others_versions(database: Database) -> None:
    async with PostgresMemory(database.dsn) as one, PostgresMemory(database.dsn, namespace="two") as two:
        await add(one, "a")
        await add(two, "a")
        await replaced(two, "a", "b")
        assert await statuses(one, "a") == [("a", "active")]
        with pytest.raises(NotFoundError):
            await one.supersede("b", "x")
        with pytest.raises(NotFoundError):
            await one.restore("b")
        assert (await one.archive("a")).status is ARCHIVED
        assert await statuses(two, "a") == [("a", "superseded"), ("b", "active")]


async def test_verbs_join_the_callers_transaction(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await add(memory, "a")
    transaction = raw.transaction()
    await transaction.start()
    await memory.supersede("a", "fact b", id="b", connection=raw)
    # An error that is foreseen leaves the transaction usable.
    with pytest.raises(ConflictError):
        await memory.supersede("a", "fact c", connection=raw)
    with pytest.raises(ConflictError):
        await memory.supersede("b", "fact a", id="a", connection=raw)
    await memory.restore("a", connection=raw)
    await memory.archive("a", connection=raw)
    assert [record.status for record in await memory.history("a", connection=raw)] == [ARCHIVED, ARCHIVED]
    await transaction.rollback()
    assert await statuses(memory, "a") == [("a", "active")]


async def unread_history(memory: PostgresMemory) -> list[MemoryRecord]:
    """The history of the first version, without what reading it counts: that is written at any time."""
    return [replace(version, access_count=0, last_accessed=None) for version in await memory.history("v0")]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["supersede", "restore", "archive"]), st.integers(0, 7)), max_size=14
    )
)
async def test_any_sequence_keeps_the_rules(memory: PostgresMemory, steps: list[tuple[str, int]]) -> None:
    await memory.clear()
    await add(memory, "v0")
    for verb, number in steps:
        before = await unread_history(memory)
        id_ = before[number % len(before)].id
        try:
            if verb == "supersede":
                await memory.supersede(id_, f"fact v{len(before)}", id=f"v{len(before)}")
            elif verb == "restore":
                await memory.restore(id_)
            else:
                await memory.archive(id_)
        except ConflictError:
            assert await unread_history(memory) == before
            continue
        after = await memory.history("v0")
        active = [version for version in after if version.status is ACTIVE]
        assert len(active) <= 1
        if verb != "archive":
            assert active[0].id == (id_ if verb == "restore" else after[-1].id)
        assert await memory.history(id_) == after
        assert await found(memory) == [version.content for version in active]
