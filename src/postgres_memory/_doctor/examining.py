"""Running one check: within limits, and in a transaction of its own that writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .._context import Context
from .._driver_errors import translated
from .._sql.names import quote
from .._transactions import ended
from ..doctor_records import Finding
from ..errors import DatabaseError, DatabaseUnavailableError, SchemaError
from .report import Check, Patient, Report

if TYPE_CHECKING:
    from asyncpg import Record

    from .._pooling import Connection
    from .._recall.health import Opening

#: A check reads no longer than this, and waits no longer for a lock, which only who changes a table holds.
STATEMENT_SECONDS, LOCK_SECONDS = 5, 1

_BEGIN = (
    f"BEGIN READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'; "
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
)
_NO_RIGHT, _TOO_LONG, _LOCKED = "42501", "57014", "55P03"


async def patient_on(context: Context, connection: Connection, opening: Opening) -> Patient:
    """Return what checks are given, on a connection."""
    from .._sql.diagnosing import SERVER

    usable = opening.problem is None
    tables = (await context.database.opened()).tables if usable else None
    with translated():
        (row,) = await connection.fetch(SERVER)
    return Patient(context, connection, opening.schema, tables, row)


async def examined(patient: Patient, check: Check) -> list[Finding]:
    """Run one check; what keeps it from seeing what it needs is its finding."""
    report = Report(check.name)
    if check.needs_tables and patient.tables is None:
        report.unchecked("the schema cannot be used", "postgres-memory migrate")
        return report.findings
    try:
        async with _reading(patient.connection):
            await check.run(patient, report)
    except DatabaseUnavailableError:
        raise
    except (DatabaseError, SchemaError) as error:
        _explain(error, patient.server, report)
    return report.findings


@asynccontextmanager
async def _reading(connection: Connection) -> AsyncIterator[None]:
    with translated():
        await connection.execute(_BEGIN)
    async with ended(connection, "COMMIT", "ROLLBACK"):
        yield


def _explain(error: DatabaseError | SchemaError, server: Record, report: Report) -> None:
    """Say why a check could not look, in place of what it saw until then."""
    report.findings.clear()
    sqlstate = error.sqlstate if isinstance(error, DatabaseError) else None
    fixes = {
        _NO_RIGHT: f"GRANT pg_monitor TO {quote(server['login'])}; or run it as the owner of the tables",
        _TOO_LONG: "run it again when the server is less busy",
        _LOCKED: "run it again when nobody changes the table any more",
    }
    report.unchecked(
        str(error), fixes.get(sqlstate or "", "postgres-memory doctor --debug"), sqlstate=sqlstate
    )
