"""A deduped content and who holds it: expired memories hold nothing, and a conflict names the one that does."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import ConflictError, IdempotencyConflictError, NotFoundError
from postgres_memory.records import MemoryPermissions, MemoryRecord, MemoryStatus
from tests.conftest import Database
from tests.integration.export_namespaces import exported, opened

PAST = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection beside the library."""
    connection = await asyncpg.connect(database.direct_dsn)
    yield connection
    await connection.close()


async def expired(memory: PostgresMemory) -> None:
    """Add a memory that has expired and that nobody made let go of its content yet."""
    await memory.add("same", id="expired", dedupe="content", expires_at=PAST)


async def test_an_expired_memory_does_not_block_an_update(memory: PostgresMemory) -> None:
    await expired(memory)
    await memory.add("other", id="a", dedupe="content")
    assert (await memory.update("a", content="same")).version == 2
    assert (await memory.add("same", dedupe="content")).id == "a"


async def test_nor_a_change_of_the_owner(memory: PostgresMemory) -> None:
    await expired(memory)
    await memory.add("same", id="a", dedupe="content", permissions=MemoryPermissions("else"))
    await memory.update("a", permissions=MemoryPermissions())
    with pytest.raises(ConflictError, match="same content") as caught:
        await memory.update("expired", expires_at=None)
    assert caught.value.id == "a"


async def test_nor_restore(memory: PostgresMemory) -> None:
    await memory.add("same", id="a", dedupe="content")
    await memory.archive("a")
    await expired(memory)
    assert (await memory.restore("a")).status is MemoryStatus.ACTIVE
    assert (await memory.add("same", dedupe="content")).id == "a"


async def test_nor_add_with_update(memory: PostgresMemory) -> None:
    await memory.add("other", id="a", dedupe="content")
    await expired(memory)
    assert (await memory.add("same", id="a", dedupe="content", on_conflict="update")).version == 2
    await memory.delete("a")
    assert (await memory.add("same", id="b", dedupe="content", on_conflict="update")).id == "b"


async def test_nor_supersede_which_is_not_deduped(memory: PostgresMemory) -> None:
    await expired(memory)
    await memory.add("other", id="a", dedupe="content")
    assert (await memory.supersede("a", "same")).supersedes == "a"
    assert (await memory.supersede("expired", "same")).supersedes == "expired"


async def test_a_revived_memory_holds_its_content_again(memory: PostgresMemory) -> None:
    await expired(memory)
    await memory.add("same", id="a", dedupe="content")
    with pytest.raises(ConflictError) as caught:
        await memory.update("expired", expires_at=None)
    assert caught.value.id == "a"
    assert (await memory.update("expired", importance=0.1, expires_at=PAST)).importance == 0.1
    await memory.update("a", content="changed")
    await memory.update("expired", expires_at=None)
    assert (await memory.add("same", dedupe="content")).id == "expired"
    await memory.update("expired", content="new")
    assert (await memory.add("new", dedupe="content")).id == "expired"


async def test_what_is_not_deduped_stays_so_when_it_is_revived(memory: PostgresMemory) -> None:
    await memory.add("same", id="plain", expires_at=PAST)
    await memory.update("plain", expires_at=None)
    assert (await memory.add("same", id="a", dedupe="content")).id == "a"


async def test_an_export_leaves_a_content_to_the_one_that_holds_it(
    memory: PostgresMemory, database: Database
) -> None:
    await expired(memory)
    await memory.add("same", id="a", dedupe="content")
    data = await exported(memory)
    async with opened(database, "copy") as copy:
        await copy.import_(io.BytesIO(data))
        assert (await copy.add("same", dedupe="content")).id == "a"
        await copy.update("expired", expires_at=None)  # there it is not deduped any more
    with pytest.raises(ConflictError):
        await memory.update("expired", expires_at=None)


async def test_a_conflict_names_the_holder_and_leaves_the_callers_transaction_usable(
    memory: PostgresMemory, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await memory.add("same", id="holder", dedupe="content")
    await memory.add("other", id="a", dedupe="content")
    await memory.add("same", id="away", dedupe="content", permissions=MemoryPermissions("else"))
    await memory.archive("away")
    async with raw.transaction():
        with pytest.raises(ConflictError) as by_content:
            await memory.update("a", content="same", connection=raw)
        with pytest.raises(ConflictError) as by_owner:
            await memory.add("same", id="a", on_conflict="update", dedupe="content", connection=raw)
        await memory.update("a", importance=0.1, connection=raw)
    assert (by_content.value.id, by_owner.value.id) == ("holder", "holder")
    assert (await memory.get("a")).importance == 0.1
    await memory.archive("holder")
    await memory.add("same", id="second", dedupe="content")
    with pytest.raises(ConflictError) as caught:
        await memory.restore("holder")
    assert caught.value.id == "second"


async def test_the_id_comes_before_the_content(memory: PostgresMemory) -> None:
    holder = await memory.add("same", id="holder", dedupe="content")
    assert (
        await memory.add("same", id="new", dedupe="content", on_conflict="update", importance=0.1) == holder
    )
    assert await memory.get_many(["new"]) == [None]
    own = await memory.add("same", id="holder", dedupe="content", on_conflict="update", importance=0.1)
    assert (own.id, own.importance, own.version) == ("holder", 0.1, 2)


async def test_a_retry_may_make_its_record_again(memory: PostgresMemory) -> None:
    first = await memory.add(MemoryRecord(content="paid 5"), idempotency_key="k")
    assert await memory.add(MemoryRecord(content="paid 5"), idempotency_key="k") == first
    for other in (MemoryRecord(content="paid 6"), MemoryRecord(content="paid 5", tags=("t",))):
        with pytest.raises(IdempotencyConflictError):
            await memory.add(other, idempotency_key="k")
    assert await memory.count() == 1
    await memory.add("x", id="a", idempotency_key="l")
    with pytest.raises(IdempotencyConflictError):
        await memory.add("x", id="b", idempotency_key="l")
    await memory.add("x", metadata={"n": 1}, idempotency_key="m")
    with pytest.raises(IdempotencyConflictError):
        await memory.add("x", metadata={"n": 1.0}, idempotency_key="m")


async def test_a_supersede_under_a_key_happens_once(memory: PostgresMemory) -> None:
    for id_ in ("a", "b"):
        await memory.add("fact", id=id_)
    new = await memory.supersede("a", "later", idempotency_key="k")
    assert await memory.supersede("a", "later", idempotency_key="k") == new
    for old, content in (("a", "another"), ("b", "later")):
        with pytest.raises(IdempotencyConflictError) as caught:
            await memory.supersede(old, content, idempotency_key="k")
        assert caught.value.id == new.id
    with pytest.raises(IdempotencyConflictError):
        await memory.add("later", idempotency_key="k")
    with pytest.raises(NotFoundError):
        await memory.supersede("nobody", "later", idempotency_key="l")
    assert (await memory.supersede("b", "later", idempotency_key="l")).supersedes == "b"
