"""Who may do what, in Python: what the database is compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import product
from typing import TYPE_CHECKING

import asyncpg

from postgres_memory import MemoryPermissions, MemoryRecord, PostgresMemory

if TYPE_CHECKING:
    from postgres_memory._pooling import Connection, Pool
    from tests.conftest import Database

#: Everybody whose name appears: two principals, and whose the trusted backend's memories are.
OWNERS = ("alice", "bob", "system")
LISTS: tuple[tuple[str, ...], ...] = ((), ("alice",), ("bob", "carol"), ("*",))

ALL_PERMISSIONS = [MemoryPermissions(*given) for given in product(OWNERS, LISTS, LISTS)]


def may_read(principal: str, permissions: MemoryPermissions) -> bool:
    """Say whether a principal reads a memory."""
    return may_write(principal, permissions) or bool({principal, "*"} & set(permissions.readers))


def may_write(principal: str, permissions: MemoryPermissions) -> bool:
    """Say whether a principal writes a memory."""
    return principal == permissions.owner or bool({principal, "*"} & set(permissions.writers))


def readable(principal: str, records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    """Return those of ``records`` that a principal reads."""
    return [record for record in records if may_read(principal, record.permissions)]


def writable(principal: str, records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    """Return those of ``records`` that a principal writes."""
    return [record for record in records if may_write(principal, record.permissions)]


async def one_of_each(memory: PostgresMemory) -> list[MemoryRecord]:
    """Store a memory of each kind of permissions, each with words that all have and one of its own."""
    return [
        await memory.add(f"the kettle sings number{number}", permissions=permissions, id=f"m{number:02}")
        for number, permissions in enumerate(ALL_PERMISSIONS)
    ]


class World:
    """A memory with one record of each kind, on a pool that lends connections."""

    def __init__(self, memory: PostgresMemory, pool: Pool, records: list[MemoryRecord]) -> None:
        self.memory = memory
        self.pool = pool
        self.records = records

    def own(self, principal: str) -> MemoryRecord:
        """Return what a principal owns and nobody else may read."""
        return next(record for record in self.records if record.permissions == MemoryPermissions(principal))

    def ids(self, records: list[MemoryRecord]) -> list[str]:
        return [record.id for record in records]


#: What holds rows of principals.
TABLES = (
    "memories",
    "memory_hash_embeddings",
    "memory_embeddings",
    "memory_access",
    "memory_relations",
    "session_messages",
    "idempotency_keys",
)


async def execute(database: Database, *statements: str) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def undone(pool: Pool) -> AsyncIterator[Connection]:
    """Give a connection in a transaction that is rolled back."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()
