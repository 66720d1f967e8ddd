"""`erase`: nothing of a namespace, or of a principal in it, is left in any table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import pytest

from postgres_memory import Erased, MemoryPermissions, PostgresMemory, PostgresSession
from postgres_memory._sql.schema import tables
from postgres_memory.errors import InvalidValueError, NotFoundError, UsageError

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
