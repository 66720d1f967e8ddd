"""What principals add and change, and that nothing of it meets what they cannot see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postgres_memory import (
    MemoryPermissions,
    MemoryRecord,
    MemoryRelation,
    MemoryRelationType,
    MemoryStatus,
    PostgresMemory,
    Ranking,
)
from postgres_memory.errors import ConflictError
from tests.conftest import Database

from .permission_model import World

PRINCIPALS = ("alice", "bob")
RELATED = MemoryRelationType.RELATED


ADDED = MemoryPermissions("alice", ("bob",), ("carol",))
GIVEN = MemoryPermissions(readers=("bob",), writers=("carol",))


async def test_what_a_principal_adds_is_its_own(world: World) -> None:
    seen, memory = world.memory.as_principal("alice"), world.memory
    added = [
        await seen.add("added", permissions=GIVEN, thread_id="t"),
        await seen.add(MemoryRecord(content="a record", permissions=GIVEN, status=MemoryStatus.ARCHIVED)),
        await seen.supersede(world.own("alice").id, "replaced", permissions=GIVEN),
    ]
    for record in added:
        assert record.permissions == ADDED
        assert await memory.get(record.id) == record
        assert await seen.get(record.id) == record
    await seen.store("stored", {"a": 1})
    found = (await memory.find(filter={"content": "stored"})).items
    assert [(record.permissions, record.metadata) for record in found] == [
        (MemoryPermissions("alice"), {"a": 1})
    ]
    assert (await memory.verify()).ok


async def test_many_that_a_principal_adds_are_its_own(world: World) -> None:
    seen, memory = world.memory.as_principal("alice"), world.memory
    target = world.own("alice").id
    hidden = world.own("bob").id
    fields: dict[str, Any] = {
        "content": "with fields",
        "permissions": GIVEN,
        "tags": ["x"],
        "thread_id": "t",
        "relations": [MemoryRelation(target, RELATED)],
    }
    a_dict: dict[str, Any] = {"content": "a dict", "metadata": {"a": 1}}
    items: list[str | dict[str, Any] | MemoryRecord] = [
        "a str",
        a_dict,
        fields,
        MemoryRecord(content="a record"),
    ]
    result = await seen.add_many([*items, {**fields, "content": "again"}], dedupe="content")
    assert (result.stored, result.failed) == (5, ())
    contents = ["a str", "a dict", "with fields", "a record", "again"]
    found = (await memory.find(filter={"content": {"$in": contents}}, order_by="created_at")).items
    assert sorted(record.content for record in found) == sorted(contents)
    assert {record.permissions.owner for record in found} == {"alice"}
    with_fields = next(record for record in found if record.content == "with fields")
    assert with_fields.permissions == ADDED
    assert [relation.target_id for relation in with_fields.relations] == [target]
    assert (await seen.add_many(items, dedupe="content")).ignored == 4
    assert (await memory.as_principal("bob").add_many(["a str"], dedupe="content")).stored == 1
    assert [entry.content for entry in await seen.search("with fields", limit=1)] == ["with fields"]
    for wrong in (
        {"content": "x", "id": "chosen"},
        {"content": "x", "permissions": MemoryPermissions("bob")},
        {"content": "x", "relations": [MemoryRelation(hidden, RELATED)]},
    ):
        refused = await seen.add_many([wrong])
        assert (refused.stored, refused.failures) == (0, 1)
    assert (await memory.verify()).ok


async def test_a_principal_chooses_neither_id_nor_owner(world: World) -> None:
    seen, own = world.memory.as_principal("alice"), world.own("alice").id
    with pytest.raises(ValueError, match=r"^id: is not for a principal to choose"):
        await seen.add("x", id="m00")
    with pytest.raises(ValueError, match=r"^id: "):
        await seen.supersede(own, "x", id="m01")
    for owner in ("bob", "*"):
        with pytest.raises(ValueError, match=r"^permissions\.owner: "):
            await seen.add("x", permissions=MemoryPermissions(owner))
        with pytest.raises(ValueError, match=r"^permissions\.owner: "):
            await seen.update(own, permissions=MemoryPermissions(owner))
    # A whole record's id may be of its own making, and is made anew.
    added = await seen.add(MemoryRecord(id="m00", content="x"))
    assert added.id != "m00"


async def test_keys_and_deduped_contents_are_of_each_owner(world: World) -> None:
    """So that neither meets what another has, and tells of it."""
    one, other = (world.memory.as_principal(name) for name in PRINCIPALS)
    mine = await one.add("a secret", dedupe="content", idempotency_key="k")
    theirs = await other.add("a secret", dedupe="content", idempotency_key="k")
    assert mine.id != theirs.id
    assert (await one.add("a secret", dedupe="content")).id == mine.id
    assert (await one.add("a secret", dedupe="content", idempotency_key="k")).id == mine.id
    assert (await other.add("other", idempotency_key="l")).permissions.owner == "bob"
    assert (await one.add("mine", idempotency_key="l")).permissions.owner == "alice"


async def test_a_writer_learns_of_no_content_that_the_owner_holds(world: World) -> None:
    """A deduped memory that it changes lets go of its content, rather than meet another one of the owner's."""
    alice, bob = world.memory.as_principal("alice"), world.memory.as_principal("bob")
    await alice.add("a secret", dedupe="content")
    shared = await alice.add("shared", dedupe="content", permissions=MemoryPermissions(writers=("bob",)))
    assert (await bob.update(shared.id, content="a secret")).content == "a secret"
    with pytest.raises(ConflictError):
        await alice.update(shared.id, content="a secret")
    assert (await alice.update(shared.id, content="shared")).content == "shared"
    assert (await alice.add("shared", dedupe="content")).id == shared.id


async def test_writers_and_the_owner_at_once(world: World) -> None:
    """Whoever is a writer changes the content whatever becomes of the lists meanwhile, and never the lists."""
    alice, bob = world.memory.as_principal("alice"), world.memory.as_principal("bob")
    shared = await alice.add("shared", permissions=MemoryPermissions(writers=("bob",)))

    async def permit() -> None:
        for number in range(15):
            lists = MemoryPermissions(readers=(f"reader{number}",), writers=("bob",))
            await alice.update(shared.id, permissions=lists)

    async def write() -> None:
        for number in range(15):
            await bob.update(shared.id, content=f"content {number}")

    await asyncio.gather(permit(), write(), write())
    found = await world.memory.get(shared.id)
    assert found.permissions == MemoryPermissions("alice", ("reader14",), ("bob",))
    assert found.version == 46


async def test_accesses_of_principals_count(database: Database) -> None:
    async with PostgresMemory(database.dsn, access_tracking="inline") as memory:
        alice = memory.as_principal("alice")
        added = await alice.add("the kettle sings")
        await alice.get(added.id)
        await alice.search("kettle")
        await alice.recall("kettle")
        assert (await alice.get(added.id)).access_count == 3
        assert (await memory.get(added.id)).access_count == 4


async def embed(texts: list[str]) -> list[list[float]]:
    """Vectors that are nearer the nearer their texts are in length."""
    return [[1.0, len(text) / 10] for text in texts]


async def test_vectors_are_ranked_among_what_may_be_read(database: Database) -> None:
    async with PostgresMemory(database.dsn, embedder=embed, space="lengths") as memory:
        alice, bob = memory.as_principal("alice"), memory.as_principal("bob")
        kept = [await alice.add("x" * length) for length in (3, 30, 5)]
        await bob.add_many(["x" * 4] * 40)
        hits = await alice.recall("yyyy", ranking=Ranking(lexical=0, vector=1), limit=2)
        assert [hit.record.id for hit in hits] == [kept[2].id, kept[0].id]
        assert (await alice.update(kept[1].id, content="x" * 4)).content == "xxxx"
        hits = await alice.recall("yyyy", ranking=Ranking(lexical=0, vector=1), limit=1)
        assert [hit.record.id for hit in hits] == [kept[1].id]
        (space,) = await memory.spaces()
        assert (space.embedded, space.pending) == (43, 0)


async def test_what_an_index_of_the_users_refuses_is_an_error(world: World) -> None:
    """Not lost without a word, as what was stored by an attempt whose answer was lost would be passed over."""
    async with world.pool.acquire() as connection:
        await connection.execute(
            "CREATE UNIQUE INDEX users_own ON memory.memories (namespace, (metadata->>'reference'))"
        )
    seen = world.memory.as_principal("alice")
    await seen.store("first", {"reference": "same"})
    for content in ("first", "second"):
        with pytest.raises(ConflictError):
            await seen.store(content, {"reference": "same"})
