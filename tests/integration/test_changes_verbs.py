"""Every verb that changes a memory or a relation tells of it: what triggers note of the rows is what the feed says."""

from __future__ import annotations

import asyncio
import inspect
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from postgres_memory import MemoryPermissions, MemoryRelation, PostgresMemory, PostgresSession
from postgres_memory.postgres import Verbs
from postgres_memory.records import MemoryRelationType, MemoryType
from tests.conftest import Database

from .change_feeds import JOURNAL, journal, read
from .test_round_trips import CALLS, LONG

Call = Callable[[PostgresMemory], Awaitable[object]]
PAST = datetime(2020, 1, 1, tzinfo=UTC)
EDGE = MemoryRelation("b", MemoryRelationType.SUPPORTS)


async def gathered(memory: PostgresMemory) -> None:
    await asyncio.gather(
        *(memory.store(f"together {number}") for number in range(4)),
        *(memory.add(f"together {number}") for number in range(4)),
    )


async def in_a_transaction(memory: PostgresMemory) -> None:
    async with memory.transaction() as inside:
        await inside.store("inside")
        await inside.add("inside")
        await inside.add_many(["inside 1", "inside 2"])
        await inside.update("a", importance=0.3)


async def expired(memory: PostgresMemory) -> None:
    await memory.add("gone", id="gone", expires_at=PAST)
    assert (await memory.purge_expired()).memories == 1


async def imported(memory: PostgresMemory) -> None:
    file = io.BytesIO()
    await memory.export(file)
    file.seek(0)
    await memory.import_(file, on_conflict="update")
    await memory.clear()
    file.seek(0)
    await memory.import_(file)


async def superseded(memory: PostgresMemory) -> None:
    await memory.supersede("a", "newer", relations=[EDGE])
    await memory.restore("a")


async def as_a_principal(memory: PostgresMemory) -> None:
    alice = memory.as_principal("alice")
    await alice.store("hers")
    one = await alice.add("hers 1")
    two = await alice.add("hers 2", relations=[MemoryRelation(one.id, MemoryRelationType.RELATED)])
    await alice.add_many(["hers 3", "hers 4"])
    await alice.update(one.id, importance=0.4)
    await alice.update(one.id, permissions=MemoryPermissions("alice", ("bob",), ()))
    await alice.relate(one.id, two.id, "supports")
    await alice.unrelate(one.id, two.id, "supports")
    await alice.supersede(one.id, "hers 5", relations=[MemoryRelation(two.id, MemoryRelationType.RELATED)])
    await alice.restore(one.id)
    await alice.archive(two.id)
    await alice.delete(two.id)
    await alice.delete_many({"importance": 0.4})
    await alice.clear()


async def of_a_session(memory: PostgresMemory) -> None:
    await memory.add("in it", memory_type=MemoryType.SESSION, session_id="s")
    async with PostgresSession(dsn(memory), session_id="s") as session:
        await session.clear(memories=True)


def dsn(memory: PostgresMemory) -> str:
    found = memory._connecting.dsn
    assert found is not None
    return found.value


#: Calls of each verb that changes memories or relations, on the memories a, b and c, of which a relates to b.
TELLING: dict[str, list[Call]] = {
    "store": [lambda memory: memory.store("tea"), gathered],
    "add": [
        lambda memory: memory.add("tea"),
        lambda memory: memory.add("tea", id="new", relations=[EDGE]),
        lambda memory: memory.add("tea", id="a", on_conflict="update", relations=[EDGE]),
        lambda memory: memory.add("tea", dedupe="content"),
        lambda memory: memory.add("tea", idempotency_key="key"),
        in_a_transaction,
        as_a_principal,
    ],
    "add_many": [
        lambda memory: memory.add_many([f"tea {number}" for number in range(30)], batch_size=7),
        lambda memory: memory.add_many(
            [{"content": "x", "id": "a"}, {"content": "y", "id": "new", "relations": [EDGE]}],
            on_conflict="update",
        ),
        lambda memory: memory.add_many(["tea", "tea", "milk"], dedupe="content"),
    ],
    "update": [
        lambda memory: memory.update("a", importance=0.1),
        lambda memory: memory.update("a", content="new", metadata={"x": 1}, metadata_mode="merge"),
    ],
    "delete": [lambda memory: memory.delete("a")],
    "delete_many": [lambda memory: memory.delete_many({"importance": 0.5})],
    "relate": [
        lambda memory: memory.relate("a", "c", "supports", label="x"),
        lambda memory: memory.relate("a", "b", "supports", confidence=0.1),
    ],
    "unrelate": [lambda memory: memory.unrelate("a", "b", "supports")],
    "supersede": [superseded],
    "restore": [superseded],
    "archive": [lambda memory: memory.archive("a")],
    "purge_expired": [expired],
    "clear": [lambda memory: memory.clear(), of_a_session],
    "import_": [imported],
    "import_from": [imported],  # which writes by add_many
    "erase": [lambda memory: memory.erase(principal="owner of c")],
}
#: What reads, what changes nothing that a memory says, and the feed itself.
SILENT = {
    *(
        "search",
        "recall",
        "get",
        "get_many",
        "find",
        "count",
        "relations",
        "related",
        "contradictions",
        "history",
    ),
    *("namespaces", "spaces", "doctor", "export", "health", "stats", "verify"),
    *("create_index", "create_metadata_index", "drop_index", "drop_metadata_index"),
    *("drop_space", "embed_pending", "reembed", "refresh_words", "set_language", "switch_space"),
    *("enable_changes", "disable_changes", "prune_changes"),
}


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute(JOURNAL)
    yield connection
    await connection.close()


async def prepare(memory: PostgresMemory) -> None:
    await memory.erase(memory.namespace)
    await memory.enable_changes()
    for id_ in "abc":
        owner = MemoryPermissions("owner of c") if id_ == "c" else None
        given: dict[str, Any] = {} if owner is None else {"permissions": owner}
        await memory.add(f"content of {id_}", id=id_, **given)
    await memory.relate("a", "b", "supports")


def test_every_verb_is_one_or_the_other() -> None:
    verbs = {name for name, _ in inspect.getmembers(Verbs, inspect.iscoroutinefunction) if name[0] != "_"}
    assert TELLING.keys().isdisjoint(SILENT)
    assert TELLING.keys() | SILENT == verbs == CALLS.keys() | LONG


@pytest.mark.parametrize("verb", TELLING)
async def test_what_happens_is_told(
    database: Database, raw: asyncpg.Connection[asyncpg.Record], verb: str
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for call in TELLING[verb]:
            await prepare(memory)
            since = (await read(memory))[-1].cursor
            await journal(raw)
            await call(memory)
            noted = await journal(raw)
            changes = await read(memory, since)
            assert noted
            cascaded = {id_ for kind, id_, _ in noted if kind == "unrelated"} - {
                change.id for change in changes if change.kind == "unrelated"
            }
            expected = sorted(
                (kind, id_, version or 0)
                for kind, id_, version in noted
                if not (kind == "unrelated" and id_ in cascaded)
            )
            changed = {"updated", "superseded", "archived", "restored"}
            said = sorted(
                ("changed" if change.kind in changed else change.kind.value, change.id, change.version or 0)
                for change in changes
            )
            assert said == expected
            # Relations go without a word where one of their ends is deleted.
            assert not cascaded or any(kind == "deleted" for kind, _, _ in noted)


async def test_where_there_is_no_feed_nothing_is_written(
    database: Database, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for calls in TELLING.values():
            for call in calls:
                await prepare(memory)
                await memory.disable_changes()
                before = await raw.fetchval("SELECT max(seq) FROM memory.changes")
                await call(memory)
                assert await raw.fetchval("SELECT max(seq) FROM memory.changes") == before


async def test_kinds_and_what_they_say(memory: PostgresMemory) -> None:
    await memory.enable_changes()
    await memory.add("tea", id="a")
    await memory.update("a", importance=0.1)
    await memory.supersede("a", "oat milk", id="b")
    await memory.restore("a")
    await memory.archive("a")
    await memory.relate("a", "b", "supports", label="why")
    await memory.unrelate("a", "b", "supports", label="why")
    await memory.delete("a")
    changes = await read(memory)
    assert [(change.kind.value, change.id, change.version) for change in changes] == [
        ("added", "a", 1),
        ("updated", "a", 2),
        ("added", "b", 1),
        ("superseded", "a", 3),
        ("restored", "a", 4),
        ("archived", "b", 2),
        ("archived", "a", 5),
        ("related", "a", None),
        ("unrelated", "a", None),
        ("deleted", "a", 5),
    ]
    related = changes[7]
    assert (related.target_id, related.relation_type, related.label) == (
        "b",
        MemoryRelationType.SUPPORTS,
        "why",
    )
    assert all(change.namespace == "default" for change in changes)
    assert all(abs(change.at - datetime.now(UTC)) < timedelta(minutes=5) for change in changes)


async def test_who_opened_before_it_was_turned_on_tells_as_well(database: Database) -> None:
    async with PostgresMemory(database.dsn) as early, PostgresMemory(database.dsn) as other:
        for number in range(2):
            await early.store(f"before {number}")
            await early.add(f"before {number}")
            await early.add_many([f"before {number}"])
        since = await other.enable_changes()
        await early.store("after")
        await early.add_many(["after"])
        await early.add("after")
        assert len(await read(other, since)) == 3
