"""The way to the server: a pooler in between, and what lasts behind it; and the replica that is read from."""

from __future__ import annotations

from typing import Any

from .._driver_errors import translated
from .._route import found_out, keeps_prepared
from ..config import MIGRATION_DSN_VARIABLE
from ..errors import DatabaseError, SchemaError
from .report import Check, Patient, Report, mebibytes

#: What a replica may be behind, in bytes of write-ahead log.
BEHIND_BYTES = 64 * 1024**2


async def pooler(patient: Patient, report: Report) -> None:
    """Behind a pooler that loses prepared statements, none may be kept; and some verbs need a way past it."""
    with translated():
        direct, lasting = await found_out(patient.connection)
    kept = keeps_prepared(patient.connection)
    past = await patient.context.database.has_way_past()
    data: dict[str, Any] = {
        "direct": direct,
        "prepared_statements_last": lasting,
        "kept": kept,
        "way_past": past,
    }
    if kept and not lasting:
        report.problem(
            "there is a pooler that loses prepared statements, and the pool keeps them: calls fail once several work "
            "at a time",
            "asyncpg.create_pool(…, statement_cache_size=0); or max_prepared_statements = 200 in PgBouncer 1.21",
            **data,
        )
    elif not direct and not past:
        report.notice(
            "there is a pooler, and no way past it for migrate(), create_index() and repairs",
            f"export {MIGRATION_DSN_VARIABLE}=postgresql://…, the DSN of the server itself",
            **data,
        )
    elif not direct:
        how = "prepares statements again where they are wanted" if lasting else "gets no prepared statements"
        report.ok(f"there is a pooler, which {how}", **data)
    else:
        report.ok("no pooler is in between", **data)


async def replica(patient: Patient, report: Report) -> None:
    """A replica must answer, follow, and not be far behind."""
    replica = patient.context.database.replica
    if replica is None:
        report.ok("no replica is set up, so that there is nothing to check", given=False)
        return
    try:
        state = await replica.state(patient.connection)
    except (DatabaseError, SchemaError) as error:
        report.warning(
            f"the replica cannot be read, so that the primary is: {error}",
            "start the replica, or correct read_dsn=",
            given=True,
        )
        return
    data: dict[str, Any] = {
        "given": True,
        "standby": state.standby,
        "behind_bytes": state.behind_bytes,
        "behind_seconds": state.behind_seconds,
        "paused": state.paused,
    }
    behind = f"{mebibytes(state.behind_bytes)} and {state.behind_seconds:.1f} s"
    if not state.standby:
        report.notice("read_dsn leads to no standby", "name a standby in read_dsn=, or leave it out", **data)
    elif state.paused:
        report.warning(
            f"the replica is {behind} behind: its replay is paused", "SELECT pg_wal_replay_resume();", **data
        )
    elif state.behind_bytes > BEHIND_BYTES or state.behind_seconds > replica.max_lag:
        report.warning(
            f"the replica is {behind} behind",
            "SELECT * FROM pg_stat_replication; on the primary, and pg_stat_wal_receiver on the replica, say where it "
            "is held up",
            **data,
        )
    else:
        report.ok(f"the replica is {behind} behind", **data)


CHECKS = (Check("pooler", pooler, needs_tables=False), Check("replica", replica, needs_tables=False))
