"""`erase`: nothing of a namespace, or of a principal in it, is left in any table."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import pytest

from postgres_memory import Erased, MemoryPermissions, PostgresMemory, PostgresSession
from postgres_memory._sql.schema import tables
from postgres_memory._writing import erase
from postgres_memory.errors import DatabaseTimeoutError, InvalidValueError, NotFoundError, UsageError

from ..conftest import Database


@pytest.fixture
async def watcher(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


async def traces(watcher: asyncpg.Connection[asyncpg.Record], namespace: str) -> dict[str, int]:
    """How many rows each table has of a namespace, where it has any."""
    counts = {}
    for table in tables("memory", "public").metadata.tables.values():
        if "namespace" in table.columns:
            number = await watcher.fetchval(f"SELECT count(*) FROM {table} WHERE namespace = $1", namespace)
            if number:
                counts[table.name] = number
    return counts


class _StopError(Exception):
    """The caller stops."""


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


async def furnish(database: Database, namespace: str) -> PostgresMemory:
    """A namespace with a row in every table, of two principals."""
    memory = PostgresMemory(
        database.dsn, namespace=namespace, embedder=embed, space="lengths", access_tracking="inline"
    )
    await memory.enable_changes()
    for owner in ("ana", "ben"):
        other = {"ana": "ben", "ben": "ana"}[owner]
        permissions = MemoryPermissions(owner, readers=(other, "cid"), writers=(other,))
        for number in range(7):
            await memory.add(f"{owner} {number}", id=f"{owner}-{number}", permissions=permissions)
        await memory.relate(f"{owner}-0", f"{owner}-1", "related")
        await memory.add(f"{owner} once", permissions=permissions, idempotency_key="k")
    await memory.relate("ana-2", "ben-2", "supports")
    await memory.supersede("ben-3", "newer", permissions=MemoryPermissions("ben"))
    await memory.set_language("german")
    await memory.refresh_words()
    await memory.get("ana-0")
    async with PostgresSession(database.dsn, "talk", namespace=namespace) as session:
        await session.add_messages([{"n": number} for number in range(5)])
    return memory


async def test_nothing_of_a_namespace_is_left(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    memory, other = await furnish(database, "one"), await furnish(database, "two")
    before = await traces(watcher, "one")
    assert before.keys() == {
        table.name
        for table in tables("memory", "public").metadata.tables.values()
        if "namespace" in table.columns
    }
    of_the_other = await traces(watcher, "two")
    seen: list[Erased] = []
    erased = await memory.erase("one", batch_size=4, progress=seen.append)
    assert await traces(watcher, "one") == {}
    assert await traces(watcher, "two") == of_the_other
    assert erased.memories == before["memories"] == 17
    assert erased.relations == before["memory_relations"]
    assert erased.accesses == before["memory_access"]
    assert erased.hash_embeddings == erased.embeddings == 17
    assert erased.messages == 5
    assert erased.idempotency_keys == 2
    assert (erased.settings, erased.spaces) == (1, 1)
    assert erased.known_words == before["known_words"]
    assert erased.changes == before["changes"]
    assert len(seen) > 6
    assert seen[-1] == erased
    assert await memory.erase("one") == Erased()
    await memory.store("and on it goes")
    assert await memory.count() == 1
    await memory.close()
    await other.close()


@pytest.mark.parametrize("principal", [None, "ana", "cid", "nobody"])
async def test_a_dry_run_counts_what_goes_and_changes_nothing(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record], principal: str | None
) -> None:
    memory, other = await furnish(database, "one"), await furnish(database, "two")
    await watcher.execute(
        "UPDATE memory.session_messages SET owner = 'ana', readers = '{ana, ben, cid}' WHERE seq % 2 = 0"
    )
    before = await traces(watcher, "one")
    namespace = "one" if principal is None else None
    counted = await memory.erase(namespace, principal=principal, dry_run=True)
    assert await traces(watcher, "one") == before
    erased = await memory.erase(namespace, principal=principal)
    # Erasing leaves tokens of its own, which it erases as well.
    assert replace(erased, write_tokens=0) == replace(counted, write_tokens=0)
    assert (counted.memories > 0) == (principal in (None, "ana"))
    assert (counted.access_lists > 0) == (principal in ("ana", "cid"))
    with pytest.raises(InvalidValueError):
        await memory.erase("two", dry_run=True)
    await memory.close()
    await other.close()


async def test_nothing_of_a_principal_is_left(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    memory = await furnish(database, "one")
    await watcher.execute(
        "UPDATE memory.session_messages SET owner = 'ana', readers = '{ben}' WHERE seq % 2 = 0"
    )
    erased = await memory.erase(principal="ana", batch_size=3)
    assert erased.memories == 8
    assert erased.access_lists == 8  # ben's memories named her
    assert erased.idempotency_keys == 1
    assert erased.messages in (2, 3)
    for table in ("memories", "session_messages"):
        left = "owner = 'ana' OR 'ana' = ANY (readers || writers)"
        assert await watcher.fetchval(f"SELECT count(*) FROM memory.{table} WHERE {left}") == 0
    assert await memory.count(include_inactive=True) == 9
    assert (await memory.get("ben-1")).permissions.readers == ("cid",)
    with pytest.raises(NotFoundError):
        await memory.get("ana-1")
    assert [relation.target_id for relation in await memory.relations("ben-2")] == []
    await memory.close()


async def test_what_is_refused(memory: PostgresMemory) -> None:
    for namespace, principal in ((None, None), ("default", "ana"), ("another", None)):
        with pytest.raises(InvalidValueError, match="namespace"):
            await memory.erase(namespace, principal=principal)
    with pytest.raises(InvalidValueError, match="batch_size"):
        await memory.erase("default", batch_size=0)
    async with memory.transaction() as transaction:
        with pytest.raises(UsageError):
            await transaction.erase("default")


async def test_it_goes_on_where_it_was_interrupted(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    memory = await furnish(database, "one")

    def interrupt(erased: Erased) -> None:
        if erased.memories:
            raise _StopError

    with pytest.raises(_StopError):
        await memory.erase("one", batch_size=5, progress=interrupt)
    assert (await traces(watcher, "one"))["memories"] == 12
    assert (await memory.erase("one")).memories == 12
    assert await traces(watcher, "one") == {}
    await memory.close()


async def test_an_expired_memory_goes_too(
    memory: PostgresMemory, watcher: asyncpg.Connection[asyncpg.Record]
) -> None:
    await memory.add("gone", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert (await memory.erase("default")).memories == 1
    assert await traces(watcher, "default") == {}


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Awaitable[object]]]:
    """What others do between the deletion of memories and that of the rest."""
    acts: list[Callable[[], Awaitable[object]]] = []
    rest = erase._Erasing.rest

    async def later(erasing: erase._Erasing) -> None:
        for act in acts:
            await act()
        await rest(erasing)

    monkeypatch.setattr(erase._Erasing, "rest", later)
    return acts


async def test_what_is_written_meanwhile_stays_whole(
    database: Database,
    watcher: asyncpg.Connection[asyncpg.Record],
    meanwhile: list[Callable[[], Awaitable[object]]],
) -> None:
    """With its embedding and that one's space, and with what tells that it was written."""
    memory = await furnish(database, "one")

    async def write() -> None:
        await memory.add("new", id="new")
        await memory.update("new", importance=0.9)

    before = [row[0] for row in await watcher.fetch("SELECT token FROM memory.write_tokens")]
    meanwhile.append(write)
    erased = await memory.erase("one", batch_size=4)
    assert (erased.memories, erased.spaces) == (17, 0)
    left = await traces(watcher, "one")
    assert left == {
        "memories": 1,
        "memory_hash_embeddings": 1,
        "memory_embeddings": 1,
        "embedding_spaces": 1,
        "write_tokens": 2,
    }
    assert (
        await watcher.fetchval("SELECT count(*) FROM memory.write_tokens WHERE token = ANY ($1)", before) == 0
    )
    meanwhile.clear()
    assert (await memory.erase("one")).spaces == 1
    assert await traces(watcher, "one") == {}
    await memory.close()


async def test_an_error_says_whether_something_was_erased(
    database: Database,
    watcher: asyncpg.Connection[asyncpg.Record],
    meanwhile: list[Callable[[], Awaitable[object]]],
) -> None:
    await (await furnish(database, "one")).close()
    meanwhile.append(lambda: watcher.execute("LOCK TABLE memory.known_words"))
    for namespace, erased in (("one", True), ("empty", False)):
        impatient = PostgresMemory(database.dsn, namespace=namespace, statement_timeout=0.5, retry_for=0)
        async with impatient as memory, watcher.transaction():
            with pytest.raises(DatabaseTimeoutError) as raised:
                await memory.erase(namespace)
            assert raised.value.nothing_written is not erased


@pytest.mark.parametrize("by", ["itself", "another"])
async def test_what_comes_later_is_embedded_again(
    database: Database, watcher: asyncpg.Connection[asyncpg.Record], by: str
) -> None:
    """At once where this object erased; by `embed_pending` where another did, which it cannot know."""
    memory, other = await furnish(database, "one"), PostgresMemory(database.dsn, namespace="one")
    await (memory if by == "itself" else other).erase("one")
    await memory.add("tea")
    embedded = 1 if by == "itself" else 0
    assert (await traces(watcher, "one")).get("memory_embeddings", 0) == embedded
    assert (await memory.embed_pending()).embedded == 1 - embedded
    assert (await traces(watcher, "one"))["memory_embeddings"] == 1
    await memory.close()
    await other.close()


async def test_writers_go_on(database: Database, watcher: asyncpg.Connection[asyncpg.Record]) -> None:
    """They and `erase` are in each other's way for moments only, and once they are over nothing is left."""
    memory = await furnish(database, "one")
    writing = PostgresMemory(database.dsn, namespace="one", embedder=embed, space="lengths")
    going_on = True

    async def write(name: str) -> None:
        for number in itertools.takewhile(lambda _: going_on, itertools.count()):
            await writing.add("new", id=f"{name} {number}")
            await writing.add_many([f"{number} {n}" for n in range(3)])

    writers = [asyncio.create_task(write(f"w{number}")) for number in range(4)]
    async with asyncio.timeout(60):  # though they write faster than it deletes
        for _ in range(10):
            await memory.erase("one", batch_size=7)
    going_on = False
    await asyncio.gather(*writers)
    await memory.erase("one")
    assert await traces(watcher, "one") == {}
    await memory.close()
    await writing.close()
