"""Reading from a replica, as long as it has what this object wrote.

The position in the write-ahead log up to which a replica must have come is asked of the primary, once for all writes
since, and the replica's position on the connection that is about to be read from, since the connections of one DSN may
lead to several servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from ._retrying import passes
from .errors import DatabaseError, SchemaError

if TYPE_CHECKING:
    from asyncpg import Record

    from ._database import Database
    from ._pooling import Connection
    from ._sql.compile import Statement

_logger = logging.getLogger(__name__)

#: Seconds for which the primary is read without asking: after a write, which no replica has at once; after a look at a
#: replica that was behind; and after one that was gone.
_AFTER_WRITE = 0.02
_AFTER_LAG = 0.05
_AFTER_LOSS = 1.0
#: Seconds between two looks at how far a replica is behind, whoever wrote.
_LAG_EVERY = 1.0

_WRITTEN = "SELECT (pg_catalog.pg_current_wal_insert_lsn() - '0/0')::bigint"
#: The position, also of a replica that was promoted; and by how many seconds it is behind, null if it replayed all that
#: it received.
_POSITION = """
SELECT (CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
        ELSE pg_catalog.pg_current_wal_insert_lsn() END - '0/0')::bigint,
    CASE WHEN pg_catalog.pg_is_in_recovery()
            AND pg_catalog.pg_last_wal_receive_lsn() IS DISTINCT FROM pg_catalog.pg_last_wal_replay_lsn()
        THEN EXTRACT(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())::float8
    END
"""


#: What is not asked for each read.
_STATE = """
SELECT pg_catalog.pg_is_in_recovery() AS standby,
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_is_wal_replay_paused() ELSE false END AS paused
"""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """Whether it is a ``standby``, how far it is behind the primary, and whether its replay is ``paused``."""

    standby: bool
    behind_bytes: int
    behind_seconds: float
    paused: bool


class Replica:
    """The servers behind a second DSN, at most ``max_lag`` seconds behind."""

    def __init__(self, database: Database[Any], primary: Database[Any], max_lag: float) -> None:
        self._database = database
        self._primary = primary
        self.max_lag = max_lag
        self._writes = 0
        self._known_writes = 0
        self._needed = 0
        self._not_before = 0.0
        self._positions: WeakKeyDictionary[object, tuple[int, float]] = WeakKeyDictionary()

    def wrote(self) -> None:
        """Note that something was written: a replica is read again once it has that."""
        self._writes += 1
        self._wait(_AFTER_WRITE)

    def _wait(self, seconds: float) -> None:
        self._not_before = max(self._not_before, asyncio.get_running_loop().time() + seconds)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Record] | None:
        """Run ``statement`` on a replica; return None where the primary has to be asked."""
        if asyncio.get_running_loop().time() < self._not_before:
            return None
        try:
            return await self._fetch(statement, parameters)
        except (DatabaseError, SchemaError) as error:
            if not isinstance(error, SchemaError) and not passes(error):
                raise
            _logger.warning("reading from the primary, as the replica cannot be read: %s", error)
            self._wait(_AFTER_LOSS)
            return None

    async def _fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Record] | None:
        needed = await self._position_needed()
        async with self._database.acquired(statement.name) as connection:
            if await self._is_behind(connection, needed):
                self._wait(_AFTER_LAG)
                return None
            return await self._database.fetch(statement, parameters, connection)

    async def _position_needed(self) -> int:
        """Return the position of the last write. Writes that end while it is asked are not covered by it."""
        writes = self._writes
        if writes != self._known_writes:
            async with self._primary.acquired("the position of the last write") as connection:
                self._needed = max(self._needed, await _translated(connection.fetchval, _WRITTEN))
            self._known_writes = writes
        return self._needed

    async def _is_behind(self, connection: Connection, needed: int) -> bool:
        now = asyncio.get_running_loop().time()
        server = cast(Any, connection)._con
        position, looked = self._positions.get(server, (-1, 0.0))
        if position >= needed and now - looked < _LAG_EVERY:
            return False
        row = await _translated(connection.fetchrow, _POSITION)
        self._positions[server] = (row[0], now)
        return row[0] < needed or (row[1] or 0.0) > self.max_lag

    async def state(self, primary: Connection) -> ReplicaState:
        """Look at one of the replicas, and at the primary on a connection that the caller has."""
        written = await _translated(primary.fetchval, _WRITTEN)
        async with self._database.acquired("the state of a replica") as connection:
            position, seconds = await _translated(connection.fetchrow, _POSITION)
            standby, paused = await _translated(connection.fetchrow, _STATE)
        return ReplicaState(standby, max(0, written - position), seconds or 0.0, paused)

    async def close(self) -> None:
        """Close the connections to replicas."""
        await self._database.close()


async def _translated(call: Callable[[str], Awaitable[Any]], sql: str) -> Any:
    from ._driver_errors import translated

    with translated():
        return await call(sql)
