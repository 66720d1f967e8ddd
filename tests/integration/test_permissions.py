"""Every verb with every kind of permissions, against the model: 48 memories, as two principals."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postgres_memory import (
    MemoryPermissions,
    MemoryRecord,
    MemoryRelation,
    MemoryRelationType,
    PostgresMemory,
    PrincipalMemory,
)
from postgres_memory.errors import NotFoundError, NotPermittedError, UsageError

from .permission_model import World, may_read, may_write, readable, undone, writable

if TYPE_CHECKING:
    from postgres_memory._pooling import Connection

PRINCIPALS = ("alice", "bob")
RELATED = MemoryRelationType.RELATED


async def outcome(call: Awaitable[Any]) -> Any:
    """Return what a call returns, or which of the two errors it raises, with what it says of any id."""
    try:
        return await call
    except NotFoundError as error:
        (id_,) = error.ids
        return NotFoundError, str(error).replace(id_, "ID")
    except NotPermittedError:
        return NotPermittedError


Call = Callable[[PrincipalMemory, MemoryRecord, MemoryRecord, "Connection"], Awaitable[Any]]

#: Changes of one memory, as (principal, the memory, one of the principal's own, connection).
WRITES: dict[str, Call] = {
    "update": lambda p, m, own, c: p.update(m.id, content="changed", connection=c),
    "merge": lambda p, m, own, c: p.update(m.id, metadata={"a": 1}, metadata_mode="merge", connection=c),
    "delete": lambda p, m, own, c: p.delete(m.id, connection=c),
    "archive": lambda p, m, own, c: p.archive(m.id, connection=c),
    "supersede": lambda p, m, own, c: p.supersede(m.id, "instead", connection=c),
    "restore": lambda p, m, own, c: p.restore(m.id, connection=c),
    "relate": lambda p, m, own, c: p.relate(m.id, own.id, "extends", connection=c),
    "unrelate": lambda p, m, own, c: p.unrelate(m.id, own.id, "related", connection=c),
}

#: What it takes to read the memory to do.
READS: dict[str, Call] = {
    "get": lambda p, m, own, c: p.get(m.id, connection=c),
    "history": lambda p, m, own, c: p.history(m.id, connection=c),
    "relations": lambda p, m, own, c: p.relations(m.id, connection=c),
    "related": lambda p, m, own, c: p.related(m.id, connection=c),
    "relate to it": lambda p, m, own, c: p.relate(own.id, m.id, "extends", connection=c),
    "add related": lambda p, m, own, c: p.add("x", relations=[MemoryRelation(m.id, RELATED)], connection=c),
    "derive": lambda p, m, own, c: p.add("x", derived_from=[m.id], connection=c),
    "supersede related": lambda p, m, own, c: p.supersede(
        own.id, "x", relations=[MemoryRelation(m.id, RELATED)], connection=c
    ),
}


@pytest.mark.parametrize("verb", WRITES)
async def test_who_may_write_a_memory_changes_it(world: World, verb: str) -> None:
    for principal in PRINCIPALS:
        seen, own = world.memory.as_principal(principal), world.own(principal)
        async with undone(world.pool) as connection:
            missing = await outcome(WRITES[verb](seen, MemoryRecord(), own, connection))
        for record in world.records:
            if record.id == own.id and verb in ("relate", "unrelate"):
                continue
            async with undone(world.pool) as connection:
                if verb == "unrelate":
                    await world.memory.relate(record.id, own.id, RELATED, connection=connection)
                found = await outcome(WRITES[verb](seen, record, own, connection))
                after = await world.memory.get_many([record.id], connection=connection)
            if may_write(principal, record.permissions):
                assert found != missing, (principal, record.permissions)
                assert found is not NotPermittedError, (principal, record.permissions)
                assert verb in ("restore", "relate", "unrelate") or after != [record]
            else:
                expected = NotPermittedError if may_read(principal, record.permissions) else missing
                assert found == expected, (principal, record.permissions)
                assert after[0] is not None
                assert after[0].version == record.version


@pytest.mark.parametrize("verb", READS)
async def test_who_may_read_a_memory_finds_it(world: World, verb: str) -> None:
    for principal in PRINCIPALS:
        seen, own = world.memory.as_principal(principal), world.own(principal)
        async with undone(world.pool) as connection:
            missing = await outcome(READS[verb](seen, MemoryRecord(), own, connection))
        assert missing[0] is NotFoundError
        for record in world.records:
            if record.id == own.id and "relat" in verb:
                continue
            async with undone(world.pool) as connection:
                found = await outcome(READS[verb](seen, record, own, connection))
            hidden = not may_read(principal, record.permissions)
            assert (found == missing) is hidden, (principal, record.permissions)


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_only_the_owner_changes_permissions(world: World, principal: str) -> None:
    seen = world.memory.as_principal(principal)
    for record in world.records:
        wanted = MemoryPermissions(readers=("dora", *record.permissions.readers))
        async with undone(world.pool) as connection:
            found = await outcome(seen.update(record.id, permissions=wanted, connection=connection))
        if principal == record.permissions.owner:
            assert found.permissions == MemoryPermissions(principal, wanted.readers, ())
        elif may_read(principal, record.permissions):
            assert found is NotPermittedError
        else:
            assert found[0] is NotFoundError


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_what_is_listed_and_counted_is_what_may_be_read(world: World, principal: str) -> None:
    seen, expected = world.memory.as_principal(principal), readable(principal, world.records)
    assert 0 < len(expected) < len(world.records)
    found: list[MemoryRecord] = []
    cursor = None
    while True:
        page = await seen.find(order_by="created_at", limit=7, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert found == expected
    assert await seen.count() == len(expected)
    assert await seen.count({"content": {"$contains": "number1"}}) == len(
        [record for record in expected if "number1" in record.content]
    )
    asked = [*world.ids(world.records), "nothing"]
    by_id = {record.id: record for record in expected}
    assert await seen.get_many(asked) == [by_id.get(id_) for id_ in asked]


@pytest.mark.parametrize("principal", PRINCIPALS)
@pytest.mark.parametrize("ranking", ["hash", "lexical", "hybrid"])
@pytest.mark.parametrize("exact", [False, True])
async def test_what_is_recalled_is_what_may_be_read(
    world: World, principal: str, ranking: Any, *, exact: bool
) -> None:
    """And as many as were asked for, whatever else there is."""
    seen, expected = world.memory.as_principal(principal), readable(principal, world.records)
    whole = await seen.recall("the kettle sings", limit=99, ranking=ranking, exact=exact)
    assert sorted(hit.record.id for hit in whole) == world.ids(expected)
    assert {hit.record.id: hit.record for hit in whole} == {record.id: record for record in expected}
    for limit in (1, 5, len(expected)):
        assert (
            await seen.recall("the kettle sings", limit=limit, ranking=ranking, exact=exact) == whole[:limit]
        )
    wanted = {"content": {"$contains": "number1"}}
    hits = await seen.recall("the kettle", limit=99, ranking=ranking, exact=exact, filter=wanted)
    matching = [record for record in expected if "number1" in record.content]
    assert sorted(hit.record.id for hit in hits) == world.ids(matching)
    one = expected[-1]
    hits = await seen.recall(one.content, limit=1, ranking=ranking, exact=exact)
    assert ranking == "hash" or [hit.record.id for hit in hits] == [one.id]


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_what_is_searched_is_what_may_be_read(world: World, principal: str) -> None:
    seen, expected = world.memory.as_principal(principal), readable(principal, world.records)
    for limit in (1, 5, len(expected), 99):
        entries = await seen.search("the kettle sings", limit=limit)
        assert len(entries) == min(limit, len(expected))
        assert {entry.content for entry in entries} <= {record.content for record in expected}
    whole = await world.memory.search("the kettle sings", limit=99)
    contents = {record.content for record in expected}
    assert await seen.search("the kettle sings", limit=99) == [
        entry for entry in whole if entry.content in contents
    ]


async def test_scores_are_those_of_what_may_be_read(world: World) -> None:
    """How rare a word is depends on nothing that cannot be read."""
    memory = world.memory
    seen = memory.as_principal("alice")
    query = "sings number1 kettle"
    before = [(hit.record.id, hit.score) for hit in await seen.recall(query, limit=99)]
    for number in range(50):
        await memory.add(f"the kettle {number}", permissions=MemoryPermissions("bob"))
    assert [(hit.record.id, hit.score) for hit in await seen.recall(query, limit=99)] == before


async def relate_all(world: World) -> None:
    await world.pool.execute(
        "INSERT INTO memory.memory_relations (namespace, source_id, relation_type, target_id) "
        "SELECT 'default', a.id, 'contradicts', b.id FROM memory.memories a, memory.memories b "
        "WHERE a.id <> b.id AND (a.seq + b.seq) % 3 = 0"
    )


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_relations_lead_to_what_may_be_read_alone(world: World, principal: str) -> None:
    await relate_all(world)
    seen, expected = world.memory.as_principal(principal), readable(principal, world.records)
    visible = set(world.ids(expected))
    whole_records = await world.memory.get_many(list(visible))
    trusted = {record.id: record for record in whole_records if record is not None}
    for id_ in visible:
        targets = {r.target_id for r in trusted[id_].relations} & visible
        assert {r.target_id for r in (await seen.get(id_)).relations} == targets
        assert {r.target_id for r in await seen.relations(id_)} >= targets
        both = await seen.relations(id_, direction="both")
        assert {r.target_id for r in both} | {r.source_id for r in both} <= visible
        walked = await seen.related(id_, direction="both", max_depth=3)
        assert {one.record.id for one in walked.items} <= visible
        assert {step for one in walked.items for step in one.path} <= visible
        assert all(r.target_id in visible for one in walked.items for r in one.record.relations)
        assert not walked.truncated
    pairs = {frozenset((one.first.id, one.second.id)) for one in await seen.contradictions()}
    whole = {frozenset((one.first.id, one.second.id)) for one in await world.memory.contradictions()}
    assert pairs == {pair for pair in whole if pair <= visible}
    assert pairs
    for hit in await seen.recall("kettle", limit=99):
        assert {r.target_id for r in hit.record.relations} <= visible


async def test_what_cannot_be_seen_counts_for_no_cap(world: World) -> None:
    memory, own = world.memory, world.own("alice")
    hidden = [record for record in world.records if not may_read("alice", record.permissions)]
    for record in hidden:
        await memory.relate(own.id, record.id, RELATED)
    last = await memory.add("the last", permissions=MemoryPermissions("alice"))
    await memory.relate(own.id, last.id, RELATED, confidence=0.1)
    walked = await memory.as_principal("alice").related(own.id, max_depth=1, max_fan_out=1, max_visits=1)
    assert [one.record.id for one in walked.items] == [last.id]
    assert not walked.truncated


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_many_are_deleted_of_what_may_be_written(world: World, principal: str) -> None:
    seen, expected = world.memory.as_principal(principal), writable(principal, world.records)
    left = [record.id for record in world.records if record not in expected]

    async def there(connection: Connection) -> list[str]:
        page = await world.memory.find(order_by="created_at", limit=99, connection=connection)
        return world.ids(list(page.items))

    async with undone(world.pool) as connection:
        assert await seen.delete_many(None, all=True, connection=connection) == len(expected)
        assert await there(connection) == left
    async with undone(world.pool) as connection:
        await seen.clear(connection=connection)
        assert await there(connection) == left


@pytest.mark.parametrize(
    "call",
    [
        lambda seen: seen.verify(),
        lambda seen: seen.namespaces(),
        lambda seen: seen.health(),
        lambda seen: seen.purge_expired(),
        lambda seen: seen.set_language("german"),
        lambda seen: seen.spaces(),
        lambda seen: seen.embed_pending(),
        lambda seen: seen.reembed("x"),
        lambda seen: seen.switch_space("x"),
        lambda seen: seen.drop_space("x"),
        lambda seen: seen.create_index("x"),
        lambda seen: seen.drop_index("x"),
        lambda seen: seen.erase("default"),
        lambda seen: seen.refresh_words(),
        lambda seen: seen.create_metadata_index(),
        lambda seen: seen.drop_metadata_index(),
    ],
)
async def test_what_concerns_more_than_one_principal(
    world: World, call: Callable[[PrincipalMemory], Awaitable[Any]]
) -> None:
    with pytest.raises(UsageError, match="is for the trusted backend"):
        await call(world.memory.as_principal("alice"))


@pytest.mark.parametrize("name", ["", "system", "*", "x" * 256, "a\0b", 7, None])
async def test_names_that_are_no_principals(world: World, name: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^name: "):
        world.memory.as_principal(name)


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_what_is_exported_is_what_may_be_read(world: World, principal: str, tmp_path: Path) -> None:
    memory, seen = world.memory, world.memory.as_principal(principal)
    await relate_all(world)
    replaced = [
        await memory.supersede(one.id, "instead", permissions=one.permissions) for one in world.records[:9]
    ]
    hidden = await memory.supersede(
        world.own("bob").id, "seen", permissions=MemoryPermissions(readers=("*",))
    )
    everything = [*world.records, *replaced, hidden]
    expected = readable(principal, everything)
    visible = {record.id for record in expected}
    result = await seen.export(tmp_path / "export")
    lines = [json.loads(line) for line in (tmp_path / "export").read_text().splitlines()]
    by_kind: dict[str, list[Any]] = {}
    for line in lines:
        by_kind.setdefault(line.get("kind", ""), []).append(line)
    assert result.memories == len(expected)
    assert {line["id"] for line in by_kind["memory"]} == visible
    assert {end for line in by_kind["relation"] for end in (line["source_id"], line["target_id"])} <= visible
    assert {end for line in by_kind["supersedes"] for end in (line["id"], line["replaced"])} <= visible
    with pytest.raises(UsageError, match="of an export is for the trusted backend"):
        await seen.import_(tmp_path / "export")
    other = PostgresMemory(world.pool, namespace="other")
    assert (await other.import_(tmp_path / "export")).stored == len(expected)


async def test_plain_lines_that_a_principal_imports_are_its_own(world: World, tmp_path: Path) -> None:
    seen = world.memory.as_principal("alice")
    (tmp_path / "lines").write_text('{"content": "one"}\n{"content": "two", "metadata": {"a": 1}}\n{}\n')
    result = await seen.import_(tmp_path / "lines")
    assert (result.stored, result.failures) == (2, 1)
    found = (await world.memory.find(filter={"content": {"$in": ["one", "two"]}})).items
    assert [record.permissions for record in found] == [MemoryPermissions("alice")] * 2
