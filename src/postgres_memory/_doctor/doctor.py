"""`doctor`: every check in turn."""

from __future__ import annotations

from .._context import Context
from .._recall.health import try_to_open
from ..doctor_records import Diagnosis, Finding
from ..errors import UsageError
from . import access, hashes, indexes, route, schema, server, sessions, sizes, spaces, upkeep
from .examining import examined, patient_on
from .repair import repair_all
from .report import Check

CHECKS: tuple[Check, ...] = (
    *server.CHECKS,
    *schema.CHECKS,
    *indexes.CHECKS,
    *spaces.CHECKS,
    *sizes.CHECKS,
    *hashes.CHECKS,
    *upkeep.CHECKS,
    *sessions.CHECKS,
    *access.CHECKS,
    *route.CHECKS,
)


async def doctor(context: Context, *, repair: bool) -> Diagnosis:
    """Examine; with ``repair``, put right what can be, and examine again."""
    if context.connection is not None or context.scope is not None:
        raise UsageError("doctor() looks at connections of its own: call it outside of the transaction")
    findings = await _examine(context)
    if not repair:
        return Diagnosis(findings)
    repairs = await repair_all(context, findings)
    return Diagnosis(await _examine(context) if repairs else findings, repairs)


async def _examine(context: Context) -> tuple[Finding, ...]:
    opening = await try_to_open(context)
    async with context.database.unchecked() as connection:
        patient = await patient_on(context, connection, opening)
        return tuple([finding for check in CHECKS for finding in await examined(patient, check)])
