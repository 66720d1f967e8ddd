"""The lock under which one process migrates a database while the others wait."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ._driver_errors import DRIVER_ERRORS, certified, unreadable
from ._route import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ._pooling import Connection
    from .config import Dsn

#: Seconds between two tries, and those that closing may take.
POLL = 0.1
_CLOSE = 10.0

#: Advisory locks are numbers, each database's apart.
_LOCK_KEY = int.from_bytes(hashlib.sha256(b"postgres-memory migrate").digest()[:8], "big", signed=True)
_HALVES = divmod(_LOCK_KEY % 2**64, 2**32)

#: Whether the session $1 of this server holds the lock of this database.
HOLDS_LOCK = (
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks JOIN pg_catalog.pg_database d ON d.oid = database "
    "WHERE datname = pg_catalog.current_database() AND locktype = 'advisory' AND granted AND pid = $1 "
    f"AND classid::bigint = {_HALVES[0]} AND objid::bigint = {_HALVES[1]} AND objsubid = 1)"
)


@asynccontextmanager
async def database_turn(dsn: Dsn) -> AsyncIterator[int]:
    """Hold the lock on a connection that does nothing else, and give the number of its session.

    The lock is asked for again and again rather than waited for: a session that waits holds a snapshot, and CREATE
    INDEX CONCURRENTLY in the process that works would wait for it in turn. It is the lock of a transaction, since
    that of a session would stay behind in a pooler; a waiting process keeps no transaction, hence no connection.
    """
    try:
        with certified():
            connection = await connect(dsn)
    except ValueError:
        # Without the cause: the driver's message may repeat a part of the password.
        raise unreadable(dsn) from None
    try:
        yield await _begin_with_lock(connection)
    finally:
        # Ends the transaction as well. A dead connection must not hide why the body failed.
        with suppress(*DRIVER_ERRORS):
            await connection.close(timeout=_CLOSE)


async def _begin_with_lock(connection: Connection) -> int:
    while True:
        transaction = connection.transaction(isolation="read_committed")
        await transaction.start()
        if await connection.fetchval("SELECT pg_catalog.pg_try_advisory_xact_lock($1)", _LOCK_KEY):
            break
        await transaction.rollback()
        await asyncio.sleep(POLL)
    # This transaction idles for as long as the revisions take.
    await connection.execute(
        "SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings "
        "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
    )
    # The driver knows a number too; a pooler may have made it up.
    return int(await connection.fetchval("SELECT pg_catalog.pg_backend_pid()"))
