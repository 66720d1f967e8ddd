"""Sessions: how many the server takes, which of them hold others up, whether clocks agree, and compiling of queries."""

from __future__ import annotations

import time
from typing import Any

from .._counted import counted
from .._sql.diagnosing import CLOCK, CONNECTIONS, PREPARED, SESSIONS, SETTINGS, SLOTS
from .._sql.diagnosing_tables import TABLES
from .._sql.names import quote, quote_text
from .report import Check, Patient, Report

#: Of the connections that the server takes, so many are close to all.
CROWDED = 0.8
#: Seconds in a transaction without a statement, and transactions since the oldest snapshot, that others pay for.
IDLE_SECONDS = 300.0
PREPARED_SECONDS = 600.0
XMIN_AGE = 1_000_000
#: Seconds by which two clocks may differ.
SKEW, _MUCH_SKEW = 1.0, 30.0
_ASKED = 3


async def connections(patient: Patient, report: Report) -> None:
    """The server must take as many connections as the pool may open, and some are to be left."""
    row = await patient.row(CONNECTIONS)
    counts = patient.context.database.pool_counts()
    limits = [] if row["superuser"] else [row["role_limit"], row["database_limit"]]
    most = min(limit for limit in [row["available"], *limits] if limit >= 0)
    pool = None if counts is None else counts.max_size
    data: dict[str, Any] = {"available": most, "used": row["used"], "pool_max_size": pool}
    wanted = 2 * max(most, pool or 0)
    raising = f"ALTER SYSTEM SET max_connections = {wanted}; -- then restart the server"
    if limits and row["role_limit"] == most:
        raising = f"ALTER ROLE {quote(patient.server['login'])} CONNECTION LIMIT {wanted};"
    elif limits and row["database_limit"] == most:
        raising = f"ALTER DATABASE {quote(patient.server['database'])} CONNECTION LIMIT {wanted};"
    if pool is not None and pool > most:
        seen = f"the pool may open {counted(pool, 'connection')}, and the server takes {most} of this login"
        report.problem(seen, f"{raising} -- or give the pool pool_max_size={max(1, most // 2)}", **data)
    elif row["used"] > CROWDED * row["available"]:
        report.warning(f"connections in use: {row['used']} of {row['available']}", raising, **data)
    else:
        report.ok(f"connections in use: {row['used']} of {row['available']}", **data)


async def idle_transactions(patient: Patient, report: Report) -> None:
    """A session that stays in a transaction keeps VACUUM from removing what is dead, and holds its locks."""
    rows = await patient.rows(SESSIONS)
    for row in rows:
        if row["state"].startswith("idle in transaction") and row["idle_seconds"] > IDLE_SECONDS:
            report.warning(
                f"session {row['pid']} of {row['role']!r} has been idle in a transaction for "
                f"{row['idle_seconds']:.0f} s",
                f"SELECT pg_terminate_backend({row['pid']}); and so that it does not happen again: "
                f"ALTER ROLE {quote(str(row['role']))} SET idle_in_transaction_session_timeout = '5min';",
                pid=row["pid"],
                role=row["role"],
                idle_seconds=row["idle_seconds"],
            )
    for row in await patient.rows(PREPARED):
        if row["seconds"] > PREPARED_SECONDS:
            report.warning(
                f"the transaction {row['gid']!r} was prepared {row['seconds']:.0f} s ago and not ended",
                f"ROLLBACK PREPARED {quote_text(row['gid'])}; or COMMIT PREPARED",
                gid=row["gid"],
            )
    hidden = [row["pid"] for row in rows if row["hidden"]]
    if hidden and not report.findings:
        report.unchecked(
            f"this login does not see what {counted(len(hidden), 'session')} of other roles in a transaction may be at",
            f"GRANT pg_read_all_stats TO {quote(patient.server['login'])};",
            pids=hidden,
        )
    elif not report.findings:
        report.ok("no session has been idle in a transaction for long", sessions=len(rows))


async def snapshots(patient: Patient, report: Report) -> None:
    """What any snapshot may still see, no VACUUM removes."""
    rows = await patient.rows(SESSIONS)
    oldest = max((row["xmin_age"] for row in rows), default=0)
    for row in rows:
        if row["xmin_age"] > XMIN_AGE:
            seen = f"session {row['pid']} of {row['role']!r} holds a snapshot from {row['xmin_age']} transactions ago"
            fix = f"SELECT pg_terminate_backend({row['pid']});"
            report.warning(seen, fix, pid=row["pid"], xmin_age=row["xmin_age"])
    for row in await patient.rows(SLOTS):
        oldest = max(oldest, row["xmin_age"])
        if row["xmin_age"] > XMIN_AGE:
            seen = f"the replication slot {row['name']} keeps what is dead for {row['xmin_age']} transactions"
            fix = f"start its standby, or: SELECT pg_drop_replication_slot({quote_text(row['name'])});"
            report.warning(seen, fix, slot=row["name"], xmin_age=row["xmin_age"])
    if not report.findings:
        report.ok(f"the oldest snapshot is {counted(oldest, 'transaction')} old", xmin_age=oldest)


async def clock(patient: Patient, report: Report) -> None:
    """Lifetimes and ids are made of this machine's time, and judged by the server's."""
    skew, within = await _skew(patient)
    data: dict[str, Any] = {"skew_seconds": skew, "within_seconds": within}
    off = max(0.0, abs(skew) - within)
    if off <= SKEW:
        report.ok(f"the clocks agree to within {max(abs(skew), within):.3f} s", **data)
        return
    say = report.warning if off > _MUCH_SKEW else report.notice
    side = "ahead of" if skew > 0 else "behind"
    say(
        f"the server's clock is {abs(skew):.1f} s {side} this machine's",
        "sudo timedatectl set-ntp true, on the machine whose clock is wrong",
        **data,
    )


async def _skew(patient: Patient) -> tuple[float, float]:
    """Return by how much the server's clock is ahead, and how far from that it may be, by the fastest answer."""
    answers = []
    for _ in range(_ASKED):
        started, sent = time.perf_counter(), time.time()
        (server,) = await patient.row(CLOCK)
        half = (time.perf_counter() - started) / 2
        answers.append((half, server - (sent + half)))
    within, skew = min(answers)
    return skew, within


async def jit(patient: Patient, report: Report) -> None:
    """Where a search is expensive enough, PostgreSQL compiles it first, which takes longer than the search."""
    settings = {row["name"]: row["value"] for row in await patient.rows(SETTINGS, ["jit", "jit_above_cost"])}
    (table,) = await patient.rows(TABLES, patient.schema, ["memory_hash_embeddings"])
    cost = exact_search_cost(table["pages"], table["rows"])
    above = float(settings["jit_above_cost"])
    data: dict[str, Any] = {
        "jit": settings["jit"],
        "available": patient.server["jit_available"],
        "cost": cost,
    }
    if compiles(settings["jit"], patient.server["jit_available"], cost, above):
        report.notice(
            f"an exact search costs about {cost:.0f}, so that the server compiles it each time it is planned",
            f"ALTER ROLE {quote(patient.server['login'])} SET jit = off;",
            **data,
        )
    else:
        report.ok(f"jit is {settings['jit']}, and no search is compiled", **data)


def exact_search_cost(pages: int, rows: float) -> float:
    """Return about what the planner says of reading a whole table and computing a few things of each row."""
    return pages + max(rows, 0) * (0.01 + 8 * 0.0025)


def compiles(jit: str, available: bool, cost: float, above: float) -> bool:
    """Say whether a statement of that cost is compiled."""
    return jit == "on" and available and 0 <= above < cost


CHECKS = (
    Check("connections", connections, needs_tables=False),
    Check("idle_transactions", idle_transactions, needs_tables=False),
    Check("snapshots", snapshots, needs_tables=False),
    Check("clock", clock, needs_tables=False),
    Check("jit", jit),
)
