"""The schema: at which revision it is, and whether all of its tables are there."""

from __future__ import annotations

from typing import Any

from .._sql.diagnosing import MISSING_TABLES
from .._sql.names import quote
from .._sql.schema_version import REVISION
from .report import Check, Patient, Report

_MIGRATE = "postgres-memory migrate"


async def schema_revision(patient: Patient, report: Report) -> None:
    """The schema must be at the revision of this version, or a newer one."""
    from .._sql.listing import read_revision

    schema = patient.schema
    rows = [] if schema is None else await patient.rows(MISSING_TABLES, schema, ["alembic_version"])
    if schema is None or rows[0]["missing"]:
        report.problem("the database has no schema of postgres-memory", _MIGRATE, found=None, needed=REVISION)
        return
    found = (await patient.row(read_revision(schema)))[0]
    data: dict[str, Any] = {"schema": schema, "found": found, "needed": REVISION}
    fix = _MIGRATE if schema == "memory" else f"{_MIGRATE} --schema {schema}"
    if found is None or found < REVISION:
        report.problem(f"schema {schema!r} is at revision {found}, {REVISION} is needed", fix, **data)
    elif found > REVISION:
        report.notice(
            f"schema {schema!r} is at revision {found}, newer than this version's {REVISION}",
            "pip install --upgrade postgres-memory",
            **data,
        )
    else:
        report.ok(f"schema {schema!r} is at revision {found}", **data)


async def tables(patient: Patient, report: Report) -> None:
    """Every table that the migrations make must be there."""
    wanted = [table.name for table in patient.known_tables.metadata.tables.values()]
    row = await patient.row(MISSING_TABLES, patient.schema, wanted)
    if row["missing"]:
        report.problem(
            f"tables are missing: {', '.join(row['missing'])}",
            f"restore schema {quote(str(patient.schema))} from a backup: pg_restore --schema={patient.schema} …",
            missing=row["missing"],
        )
    else:
        report.ok(f"all {len(wanted)} tables are there", missing=[])


CHECKS = (Check("schema_revision", schema_revision, needs_tables=False), Check("tables", tables))
