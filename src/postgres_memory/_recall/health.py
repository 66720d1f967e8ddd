"""`health`: what a database, its schema and the connections to it look like from here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from .._context import Context
from .._driver_errors import translated
from .._sql.schema_version import MINIMUM_SERVER, MINIMUM_VECTOR, REVISION
from ..errors import DatabaseError, DatabaseTimeoutError, DatabaseUnavailableError, SchemaError
from ..listing_records import Health

if TYPE_CHECKING:
    from asyncpg import Record

    from .._pooling import Connection


@dataclass(frozen=True, slots=True)
class Opening:
    """How opening went: which schema it is, if that could be told, and what was wrong."""

    schema: str | None
    problem: str | None = None


async def health(context: Context) -> Health:
    """Open if that works, then ask the server; a schema that cannot be used is a finding, not an error."""
    opening = await try_to_open(context)
    counts = context.database.pool_counts()
    turn = nullcontext() if context.scope is None else context.scope.entered()
    async with turn, context.database.unchecked(context.connection) as connection:
        with translated():
            facts = await _facts(connection, opening.schema)
            revision = await _revision(connection, opening.schema) if facts["revision_readable"] else None
            started = perf_counter()
            await connection.fetchval("SELECT 1")
            round_trip = perf_counter() - started
    problems = _problems(facts, opening)
    return Health(
        ok=not problems,
        problems=problems,
        server_version=facts["server_version"],
        vector_version=facts["vector_version"],
        schema_revision=revision,
        needed_revision=REVISION,
        role=facts["role"],
        owner=facts["owner"],
        acts_as_owner=facts["acts_as_owner"],
        standby=facts["standby"],
        pool_size=None if counts is None else counts.size,
        pool_in_use=None if counts is None else counts.in_use,
        pool_max_size=None if counts is None else counts.max_size,
        round_trip_seconds=round_trip,
    )


async def try_to_open(context: Context) -> Opening:
    """Open, unless the database cannot be used as it is; raise only where it does not answer."""
    try:
        catalog = await context.database.opened()
    except SchemaError as error:
        return Opening(error.schema, str(error))
    except (DatabaseUnavailableError, DatabaseTimeoutError):
        raise
    except DatabaseError as error:  # such as a role that may not use the schema
        return Opening(None, str(error))
    return Opening(catalog.tables.schema)


async def _facts(connection: Connection, schema: str | None) -> Record:
    from .._sql.listing import SERVER_FACTS

    (row,) = await connection.fetch(SERVER_FACTS, schema)
    return row


async def _revision(connection: Connection, schema: str | None) -> str | None:
    from .._sql.listing import read_revision

    assert schema is not None
    revision: str | None = await connection.fetchval(read_revision(schema))
    return revision


def _problems(facts: Record, opening: Opening) -> tuple[str, ...]:
    found = [] if opening.problem is None else [opening.problem]
    if facts["server_number"] < MINIMUM_SERVER:
        found.append(f"PostgreSQL {MINIMUM_SERVER // 10000} or newer is needed")
    if facts["vector_version"] is None:
        found.append("the database does not have the extension vector (pgvector)")
    elif tuple(int(part) for part in facts["vector_version"].split(".")[:2]) < MINIMUM_VECTOR:
        found.append(f"pgvector {'.'.join(map(str, MINIMUM_VECTOR))} or newer is needed")
    if facts["owner"] is not None and not facts["acts_as_owner"]:
        found.append(
            f"the role {facts['role']!r} neither owns the tables nor inherits the rights of a role that does (their "
            f"owner is {facts['owner']!r}), so that access control does not treat it as the trusted backend"
        )
    if facts["standby"]:
        found.append("the server is a standby and takes no writes")
    return tuple(found)
