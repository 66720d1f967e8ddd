"""Repairing indexes: rebuilt or dropped beside readers and writers, one at a time, as `create_index` takes its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._context import Context
from .._driver_errors import translated
from .._recall.health import try_to_open
from .._spaces.indexing import turn
from ..doctor_records import Finding, Repair
from ..errors import DatabaseError, DatabaseUnavailableError
from .examining import examined, patient_on
from .indexes import CHECKS, space_of_index

if TYPE_CHECKING:
    from .._pooling import Connection


async def repair_all(context: Context, findings: tuple[Finding, ...]) -> tuple[Repair, ...]:
    """Run the fixes that may be run, one after another; one that fails stops none of the others."""
    repairs = []
    for finding in findings:
        if finding.repairable:
            repairs += await _repair(context, finding)
    return tuple(repairs)


async def _repair(context: Context, finding: Finding) -> list[Repair]:
    """Take the turn of whoever builds such an index, and look again: it may be whole by now, or gone."""
    space = await _space(context, finding)
    async with turn(context, space) as connection:
        statement = str(finding.fix)
        if statement not in {found.fix for found in await _indexes(context, connection)}:
            return []
        return [Repair(finding.check, statement, await _error_of(connection, statement))]


async def _error_of(connection: Connection, statement: str) -> str | None:
    try:
        with translated():
            await connection.execute(statement)
    except DatabaseUnavailableError:
        raise
    except DatabaseError as error:  # such as duplicates that a unique index does not take
        return str(error)
    return None


async def _space(context: Context, finding: Finding) -> str:
    """Return whose turn it is: the space of the index, or none, as for the index on metadata."""
    async with context.database.acquired("doctor") as connection:
        patient = await patient_on(context, connection, await try_to_open(context))
        return await space_of_index(patient, finding.data["index"])


async def _indexes(context: Context, connection: Connection) -> list[Finding]:
    patient = await patient_on(context, connection, await try_to_open(context))
    return [finding for check in CHECKS for finding in await examined(patient, check)]
