"""The tables: dead rows and statistics, how old the oldest row is, what waits in GIN indexes, what takes the disk."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .._counted import counted
from .._sql.diagnosing import SETTINGS, SLOTS
from .._sql.diagnosing_rows import count_expired, oldest_changes
from .._sql.diagnosing_tables import INDEXES, PENDING_FUNCTION, TABLES, pending_pages
from .._sql.names import qualified, quote
from .report import Check, Patient, Report, mebibytes

if TYPE_CHECKING:
    from asyncpg import Record

#: Autovacuum comes at a fifth of dead rows, and at a tenth of changed ones; these are what it did not keep up with.
DEAD_ROWS, DEAD_SHARE = 1_000, 0.4
CHANGED_ROWS, CHANGED_SHARE = 1_000, 0.4
#: So many rows are worth statistics.
ROWS_WITHOUT_STATISTICS = 1_000
#: A table of so many bytes, of which the rows fill less than a third.
MOSTLY_EMPTY_BYTES = 100 * 1024**2
_EMPTY_TIMES, _ROW_HEAD = 3, 28
#: Transactions after which the server refuses writes are 2,147 million; autovacuum is to act at 200 million.
OLD_SHARE, TOO_OLD = 1.5, 1_500_000_000
#: The least that is worth a word, of what waits in a GIN index, and of write-ahead log that a slot keeps.
PENDING_BYTES = 1024**2
KEPT_BYTES = 1024**3
EXPIRED = 10_000
#: A reader that is so far behind will hardly come back; the names of so many feeds are enough to act on.
OLD_CHANGES, _MOST_FEEDS = timedelta(days=30), 20

_KIBIBYTE, _PAGE = 1024, 8192


async def dead_rows(patient: Patient, report: Report) -> None:
    """Dead rows must be removed in time, and pages that they left be used again."""
    tables = await _tables(patient)
    for row in tables:
        name = qualified(str(patient.schema), row["name"])
        data: dict[str, Any] = {
            "table": row["name"],
            "dead": row["dead"],
            "live": row["live"],
            "bytes": row["bytes"],
        }
        full = None if row["row_bytes"] is None or row["rows"] < 0 else row["row_bytes"] + _ROW_HEAD
        if row["autovacuum_off"]:
            fix = f"ALTER TABLE {name} RESET (autovacuum_enabled);"
            report.warning(f"autovacuum is switched off for {row['name']}", fix, **data)
        if row["dead"] > DEAD_ROWS + DEAD_SHARE * row["live"]:
            seen = f"{row['name']} has {row['dead']} dead rows beside {counted(row['live'], 'live one')}"
            report.warning(seen, f"VACUUM (ANALYZE) {name};", **data)
        elif full and row["bytes"] > max(MOSTLY_EMPTY_BYTES, _EMPTY_TIMES * full * row["rows"]):
            rows = counted(round(row["rows"]), "row")
            seen = f"{row['name']} takes {mebibytes(row['bytes'])} for about {rows}: most of it is empty"
            fix = f"VACUUM (FULL, ANALYZE) {name}; -- keeps everybody out meanwhile; pg_repack does not"
            report.notice(seen, fix, **data)
    if not report.findings:
        report.ok("no table has many dead rows", dead=sum(row["dead"] for row in tables))


async def statistics(patient: Patient, report: Report) -> None:
    """The planner must know about what is in a table."""
    for row in await _tables(patient):
        fix = f"ANALYZE {qualified(str(patient.schema), row['name'])};"
        data: dict[str, Any] = {"table": row["name"], "changed": row["changed"], "live": row["live"]}
        if not row["analysed"] and row["live"] >= ROWS_WITHOUT_STATISTICS:
            report.warning(f"{row['name']} has {row['live']} rows and was never analysed", fix, **data)
        elif row["changed"] > CHANGED_ROWS + CHANGED_SHARE * row["live"]:
            seen = f"{row['changed']} rows of {row['name']} changed since it was analysed, and it has {row['live']}"
            report.warning(seen, fix, **data)
    if not report.findings:
        report.ok("the statistics of every table are recent")


async def wraparound(patient: Patient, report: Report) -> None:
    """No row may get so old that the server refuses writes."""
    settings = {
        row["name"]: int(row["value"])
        for row in await patient.rows(
            SETTINGS, ["autovacuum_freeze_max_age", "autovacuum_multixact_freeze_max_age"]
        )
    }
    oldest = 0
    for row in await _tables(patient):
        fix = f"VACUUM (FREEZE) {qualified(str(patient.schema), row['name'])};"
        for kind, setting in (
            ("transaction", "autovacuum_freeze_max_age"),
            ("multixact", "autovacuum_multixact_freeze_max_age"),
        ):
            age = row[f"{kind}_age"] or 0
            oldest = max(oldest, age)
            seen = f"the oldest rows of {row['name']} are {age} {kind}s old"
            data: dict[str, Any] = {"table": row["name"], "age": age}
            if age > TOO_OLD:
                report.problem(f"{seen}; the server refuses writes at about 2,147,000,000", fix, **data)
            elif age > OLD_SHARE * settings[setting]:
                report.warning(
                    f"{seen}, and autovacuum was to freeze them at {settings[setting]}", fix, **data
                )
    if not report.findings:
        report.ok(f"the oldest rows are {counted(oldest, 'transaction')} old", age=oldest)


async def pending_lists(patient: Patient, report: Report) -> None:
    """What waits to be merged into a GIN index is read by every search, so that little may wait.

    The index limits it itself; how much waits just now only the extension pgstattuple says, where it may be asked.
    """
    functions = await patient.rows(PENDING_FUNCTION)
    (setting,) = await patient.rows(SETTINGS, ["gin_pending_list_limit"])
    limits = {}
    for row in await patient.rows(INDEXES, patient.schema):
        if row["method"] != "gin" or not row["valid"]:
            continue
        limit = limits[row["name"]] = _limit(row, int(setting["value"])) * _KIBIBYTE
        name = qualified(str(patient.schema), row["name"])
        if limit > PENDING_BYTES:
            seen = f"up to {mebibytes(limit)} may wait in the index {row['name']}, which every search reads"
            fix = f"ALTER INDEX {name} SET (gin_pending_list_limit = 256);"
            report.warning(seen, fix, index=row["name"], limit_bytes=limit)
        if functions:
            (pages,) = await patient.row(pending_pages(functions[0]["schema"], name))
            if pages * _PAGE > PENDING_BYTES:
                seen = f"{mebibytes(pages * _PAGE)} wait in the index {row['name']}, which every search reads"
                fix = f"SELECT gin_clean_pending_list('{name}');"
                report.warning(seen, fix, index=row["name"], pending_bytes=pages * _PAGE)
    if not report.findings:
        most = max(limits.values(), default=0)
        report.ok(
            f"at most {mebibytes(most)} can wait in an index", limit_bytes=limits, measured=bool(functions)
        )


def _limit(row: Record, of_server: int) -> int:
    options = dict(option.split("=", 1) for option in row["options"])
    if options.get("fastupdate") in ("off", "false"):
        return 0
    return int(options.get("gin_pending_list_limit", of_server))


async def disk(patient: Patient, report: Report) -> None:
    """Nothing that nobody needs may take much of the disk."""
    tables = await _tables(patient)
    sizes = {row["name"]: row["bytes"] + row["toast_bytes"] + row["indexes_bytes"] for row in tables}
    total = sum(sizes.values())
    for row in await patient.rows(SLOTS):
        if row["kept_bytes"] > KEPT_BYTES and not row["active"]:
            report.warning(
                f"the replication slot {row['name']} is not used, and keeps {mebibytes(row['kept_bytes'])} of "
                "write-ahead log",
                f"start its standby, or: SELECT pg_drop_replication_slot('{row['name']}');",
                slot=row["name"],
                kept_bytes=row["kept_bytes"],
            )
    parameters = {"namespace": patient.context.namespace, "limit": EXPIRED + 1}
    ((expired,),) = await patient.here.fetch(count_expired, parameters)
    if expired > EXPIRED:
        report.notice(
            f"more than {EXPIRED} memories of {patient.context.namespace!r} expired more than a day ago",
            "await memory.purge_expired()",
            expired=expired,
        )
    if not report.findings:
        report.ok(f"schema {quote(str(patient.schema))} takes {mebibytes(total)}", bytes=total, tables=sizes)


async def change_feeds(patient: Patient, report: Report) -> None:
    """Nobody but `prune_changes` takes events away, and a feed grows by one with each write."""
    parameters = {"older_than": OLD_CHANGES.total_seconds(), "limit": _MOST_FEEDS}
    for row in await patient.here.fetch(oldest_changes, parameters):
        report.notice(
            f"the change feed of namespace {row['namespace']!r} keeps changes of {counted(row['days'], 'day')}",
            f"await memory.prune_changes(timedelta(days={OLD_CHANGES.days})), with its namespace, now and then",
            namespace=row["namespace"],
            days=row["days"],
        )
    if not report.findings:
        report.ok(f"no change feed keeps changes of more than {counted(OLD_CHANGES.days, 'day')}")


async def _tables(patient: Patient) -> list[Record]:
    names = [table.name for table in patient.known_tables.metadata.tables.values()]
    return await patient.rows(TABLES, patient.schema, names)


CHECKS = (
    Check("dead_rows", dead_rows),
    Check("statistics", statistics),
    Check("wraparound", wraparound),
    Check("pending_lists", pending_lists),
    Check("disk", disk),
    Check("change_feeds", change_feeds),
)
