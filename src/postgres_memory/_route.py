"""How this package connects: the options of every connection of its own, and what it does behind a pooler.

A pooler in transaction mode (PgBouncer) gives each transaction another server connection. A statement that was prepared
on one is then executed on another, which does not know it, or has another client's of the same name. Newer poolers
prepare it again wherever it is wanted; older ones, and such where that is off, do not, and the failures come only once
several clients work at a time. So it is found out when a pool is made, and nothing is kept prepared where it would be
lost. Elsewhere nothing differs with a pooler: no start-up parameters are sent, no session is listened on, and what is
set is set for one transaction.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg

from ._hosts import Hosts

if TYPE_CHECKING:
    from ._pooling import Connection, Pool, PoolOptions
    from .config import Dsn

#: A pooler answers a client before it has a server connection, hence with a process number that it made up.
_IS_DIRECT = "pg_catalog.pg_backend_pid() = $1"

#: The arrays in our statements that the driver asks the server about when it first meets them.
_ARRAYS = "boolean", "bytea", "double precision", "bigint", "integer", "real", "timestamptz"

#: After 15 s of silence the other side is asked three times, every 5 s; what it does not confirm is waited for 30 s.
_KEEPING_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


#: Seconds for a connection to be made where nobody says how many.
CONNECTING = 60.0


@dataclass(slots=True)
class _Route:
    """What the first connection of a pool found out about the route to the server, and the others follow."""

    hosts: Hosts
    known: bool = False
    direct: bool = True
    keeps_statements: bool = True

    async def connect(self, *_: Any, **options: Any) -> asyncpg.Connection[asyncpg.Record]:
        """Return a new connection for the pool, which connects once before it connects several times at once."""
        connection = await self._connect(**options)
        try:
            if not self.known:
                await self.find_out(connection)
                if not self.keeps_statements:
                    await connection.close()
                    connection = await self._connect(**options)
            await self._learn_types(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _connect(self, **options: Any) -> asyncpg.Connection[asyncpg.Record]:
        if not self.keeps_statements:
            options["statement_cache_size"] = 0
        connection = await self.hosts.connect(**options)
        _keep_alive(connection)
        return connection

    async def find_out(self, connection: Connection) -> None:
        """Prepare a statement that says whether the server knows it by the name that we gave it.

        The server does not, where the pooler gives it names of its own, and those do that prepare again what another
        server connection lacks.
        """
        async with connection.transaction():  # holds one server connection
            self.direct, self.keeps_statements = await found_out(connection)
        self.known = True

    async def _learn_types(self, connection: Connection) -> None:
        """Let the driver ask about types, in a transaction, behind a pooler.

        While it asks, it switches the JIT compiler off for the session. Were it to ask later, it might switch that of
        one server connection off, and that of another one on.
        """
        if not self.direct:
            async with connection.transaction():
                await connection.fetch(f"SELECT {', '.join(f'NULL::{name}[]' for name in _ARRAYS)}")


async def create_pool(dsn: Dsn, options: PoolOptions) -> Pool:
    """Return an opened pool, which keeps statements prepared where they last."""
    return await asyncpg.create_pool(
        dsn.value,
        min_size=options.min_size,
        max_size=options.max_size,
        timeout=options.connect_timeout,
        command_timeout=options.statement_timeout,
        connect=_Route(Hosts(dsn.value)).connect,
        # The driver does not keep prepared statements longer than 15 KiB unless told to; `recall` has such.
        max_cacheable_statement_size=0,
        # The reset query costs a round trip per call. Nothing of ours outlives a transaction, so there is nothing to
        # reset.
        reset=_no_reset,
    )


async def connect(dsn: Dsn, *, timeout: float | None = None) -> asyncpg.Connection[asyncpg.Record]:
    """Return a connection, made within ``timeout`` seconds (a minute), for a few statements, not worth preparing."""
    connection = await Hosts(dsn.value).connect(statement_cache_size=0, timeout=timeout or CONNECTING)
    _keep_alive(connection)
    return connection


async def found_out(connection: Connection) -> tuple[bool, bool]:
    """Say of a connection in a transaction whether it is direct, and whether prepared statements last on it."""
    name = f"postgres_memory_{uuid4().hex}"
    asking = await connection.prepare(
        f"SELECT {_IS_DIRECT} AS direct, "
        f"EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE name = '{name}') AS passed_on",
        name=name,
    )
    row = await asking.fetchrow(connection.get_server_pid())
    assert row is not None
    if row["passed_on"]:
        await connection.execute(f"DEALLOCATE {name}")  # it would stay behind in a pooler
    return row["direct"], row["direct"] or not row["passed_on"]


def keeps_prepared(connection: Connection) -> bool:
    """Say whether the driver keeps statements prepared on a connection, as it does unless told otherwise."""
    # Private to asyncpg, and looked at gently: without it, a pool that somebody else made is trusted.
    configured = getattr(getattr(connection, "_con", connection), "_config", None)
    return bool(getattr(configured, "statement_cache_size", 0))


async def is_direct(connection: Connection) -> bool:
    """Say whether ``connection`` has a session of the server to itself, with no pooler in between."""
    return bool(await connection.fetchval(f"SELECT {_IS_DIRECT}", connection.get_server_pid()))


async def _no_reset(_: object) -> None:
    """Reset nothing."""


def _keep_alive(connection: Connection) -> None:
    """Have the operating system end a connection whose other side is gone without a word, as after a power failure.

    By itself it would ask after two hours, and repeat what is not confirmed for a quarter of one.
    """
    # Private to asyncpg, and looked at gently: without it, only `statement_timeout` ends the wait.
    transport = getattr(connection, "_transport", None)
    own = None if transport is None else transport.get_extra_info("socket")
    if own is None or own.family == getattr(socket, "AF_UNIX", None):
        return
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPING_ALIVE.items():
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            own.setsockopt(socket.IPPROTO_TCP, option, value)
