"""Building and dropping indexes of spaces: one at a time, on a connection of its own, without locking anybody out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from .._context import Context
from .._driver_errors import DRIVER_ERRORS, translated
from .._progress import tell
from .._waiting import finished

if TYPE_CHECKING:
    from .._pooling import Connection
    from .._sql.schema import Tables

#: Seconds between two looks at whether another session has finished, or how far this one is.
_POLL = 0.5

Progress = Callable[[str, int, int], object]

_PROGRESS = (
    "SELECT phase, blocks_done, blocks_total, tuples_done, tuples_total "
    "FROM pg_catalog.pg_stat_progress_create_index WHERE pid = $1"
)


@asynccontextmanager
async def turn(context: Context, space: str) -> AsyncIterator[Connection]:
    """Lend a connection on which to index ``space``, while no other session does.

    The lock is asked for again and again rather than waited for: a session that waits holds a snapshot, and the CREATE
    INDEX CONCURRENTLY it waits for would wait for that in turn. Only who has it knows that an index which is not valid
    is the remainder of a failure, and not being built.
    """
    tables = await _tables(context)
    key = _lock_key(tables.schema, space)
    async with context.database.apart() as connection:
        with translated():
            # Building takes as long as it takes; a lock that others hold for long is worth waiting for.
            await connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        try:
            while True:
                with translated():
                    if await connection.fetchval("SELECT pg_catalog.pg_try_advisory_lock($1)", key):
                        break
                await asyncio.sleep(_POLL)
            yield connection
        finally:
            with suppress(*DRIVER_ERRORS):
                await connection.execute("RESET statement_timeout; RESET lock_timeout")
                await connection.fetchval("SELECT pg_catalog.pg_advisory_unlock($1)", key)


async def indexes_of(context: Context, space: str) -> dict[str, bool]:
    """Return the names of all indexes of a space, each with whether it is whole."""
    from .._sql.space_index import find_space_indexes, index_prefix

    rows = await context.fetch(find_space_indexes, {"prefix": index_prefix(space)})
    return {row["name"]: row["valid"] for row in rows}


async def drop(context: Context, connection: Connection, name: str) -> None:
    """Drop an index."""
    from .._sql.space_index import drop_space_index

    with translated():
        await connection.execute(drop_space_index(await _tables(context), name))


async def build(context: Context, connection: Connection, statement: str, progress: Progress | None) -> None:
    """Run a statement that builds an index, and tell how far it is."""
    telling = None if progress is None else asyncio.create_task(_tell(context, connection, progress))
    try:
        with translated():
            await connection.execute(statement)
        if telling is not None and telling.done():
            telling.result()  # what the caller's function raised
    finally:
        if telling is not None:
            telling.cancel()
            await finished([telling])


async def _tell(context: Context, connection: Connection, progress: Progress) -> None:
    pid = connection.get_server_pid()
    while True:
        await asyncio.sleep(_POLL)
        async with context.database.acquired() as other:
            with translated():
                row = await other.fetchrow(_PROGRESS, pid)
        if row is not None:
            counted = "blocks" if row["blocks_total"] else "tuples"
            await tell(progress, row["phase"], row[f"{counted}_done"] or 0, row[f"{counted}_total"] or 0)


async def _tables(context: Context) -> Tables:
    return (await context.database.opened()).tables


def _lock_key(schema: str, space: str) -> int:
    digest = sha256(f"postgres-memory index\0{schema}\0{space}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
