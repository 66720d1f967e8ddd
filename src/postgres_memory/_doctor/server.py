"""The server: its version, the extension, and the settings that decide what is safe and what is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._sql.diagnosing import SETTINGS
from .._sql.names import quote
from .._sql.schema_version import MINIMUM_SERVER, MINIMUM_VECTOR
from .report import Check, Patient, Report

if TYPE_CHECKING:
    from asyncpg import Record

_RELOAD = "SELECT pg_reload_conf();"


async def server_version(patient: Patient, report: Report) -> None:
    """PostgreSQL must be 15 or newer."""
    version, number = patient.server["version"], patient.server["number"]
    if number < MINIMUM_SERVER:
        report.problem(f"PostgreSQL {version}", "upgrade the server to PostgreSQL 15 or newer", number=number)
    else:
        report.ok(f"PostgreSQL {version}", number=number)


async def vector_version(patient: Patient, report: Report) -> None:
    """Pgvector must be 0.8 or newer: before that, an index scan with a filter finds too little."""
    found, available = patient.server["vector_version"], patient.server["vector_available"]
    data: dict[str, Any] = {"installed": found, "available": available}
    update = "ALTER EXTENSION vector UPDATE;"
    if found is None and available is None:
        fix = "install pgvector on the server (Debian: postgresql-NN-pgvector), then: postgres-memory migrate"
        report.problem("the server has no pgvector", fix, **data)
    elif found is None:
        report.problem("the database does not have the extension vector", "postgres-memory migrate", **data)
    elif _numbers(found) < MINIMUM_VECTOR:
        newer = available is not None and _numbers(available) >= MINIMUM_VECTOR
        fix = update if newer else f"install pgvector 0.8 or newer on the server, then: {update}"
        report.problem(f"pgvector {found}, which has no iterative index scan", fix, **data)
    elif available is not None and _numbers(found) < _numbers(available):
        report.notice(f"pgvector {found}, and the server has {available}", update, **data)
    else:
        report.ok(f"pgvector {found}", **data)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


async def extension_schema(patient: Patient, report: Report) -> None:
    """The login must be allowed to enter the schema of the extension, which may be any."""
    schema, login = patient.server["extension_schema"], patient.server["login"]
    if schema is None:
        report.problem("there is no extension vector", "postgres-memory migrate", schema=None)
    elif not patient.server["extension_usable"]:
        report.problem(
            f"the extension vector is in schema {schema!r}, which the role {login!r} may not use",
            f"GRANT USAGE ON SCHEMA {quote(schema)} TO {quote(login)};",
            schema=schema,
        )
    else:
        report.ok(f"the extension vector is in schema {schema!r}", schema=schema)


async def writable(patient: Patient, report: Report) -> None:
    """The DSN must lead to the primary, in sessions that may write."""
    (setting,) = await patient.rows(SETTINGS, ["default_transaction_read_only"])
    if patient.server["standby"]:
        report.problem(
            "the server is a standby and takes no writes",
            "name the primary in the DSN, or all servers and target_session_attrs=primary; standbys go into read_dsn=",
            standby=True,
        )
    elif setting["value"] == "on":
        report.problem(
            "transactions are read-only unless they say otherwise",
            _resetting(patient, setting, "off"),
            standby=False,
        )
    else:
        report.ok("the server takes writes", standby=False)


async def synchronous_commit(patient: Patient, report: Report) -> None:
    """What is acknowledged must be on disk: with ``off``, a crash of the server loses the last moments."""
    (setting,) = await patient.rows(SETTINGS, ["synchronous_commit"])
    value = setting["value"]
    data: dict[str, Any] = {"value": value, "source": setting["source"]}
    if value == "off":
        report.warning(
            "synchronous_commit is off: a crash of the server loses writes of the last moments that were acknowledged",
            _resetting(patient, setting, "on"),
            **data,
        )
    else:
        report.ok(f"synchronous_commit is {value}", **data)


async def durability(patient: Patient, report: Report) -> None:
    """``fsync`` and ``full_page_writes`` are what a database that is to survive a crash has on."""
    settings = await patient.rows(SETTINGS, ["fsync", "full_page_writes"])
    data: dict[str, Any] = {setting["name"]: setting["value"] for setting in settings}
    for setting in settings:
        if setting["value"] != "on":
            report.problem(
                f"{setting['name']} is off: a crash of the machine can destroy the database",
                _resetting(patient, setting, "on"),
                **data,
            )
    if not report.findings:
        report.ok("fsync and full_page_writes are on", **data)


async def autovacuum(patient: Patient, report: Report) -> None:
    """Without autovacuum, and the counting it goes by, tables grow and plans get worse."""
    settings = await patient.rows(SETTINGS, ["autovacuum", "track_counts"])
    data: dict[str, Any] = {setting["name"]: setting["value"] for setting in settings}
    for setting in settings:
        if setting["value"] != "on":
            report.warning(
                f"{setting['name']} is off: nothing removes dead rows or keeps statistics",
                _resetting(patient, setting, "on"),
                **data,
            )
    if not report.findings:
        report.ok("autovacuum and track_counts are on", **data)


def _resetting(patient: Patient, setting: Record, value: str) -> str:
    """Return what gives a setting another value where it got the one it has."""
    name, database = setting["name"], quote(patient.server["database"])
    login = quote(patient.server["login"])
    return {
        "database": f"ALTER DATABASE {database} SET {name} = {value};",
        "user": f"ALTER ROLE {login} SET {name} = {value};",
        "database user": f"ALTER ROLE {login} IN DATABASE {database} SET {name} = {value};",
        "client": f"take {name} out of the DSN, or of server_settings= of the pool",
        "session": f"take {name} out of what sets it on the connections of the pool",
        "command line": f"take {name} out of the options that the server is started with",
        "environment variable": f"take {name} out of the environment that the server is started with",
    }.get(setting["source"], f"ALTER SYSTEM SET {name} = {value}; {_RELOAD}")


CHECKS = (
    Check("server_version", server_version, needs_tables=False),
    Check("vector_version", vector_version, needs_tables=False),
    Check("extension_schema", extension_schema, needs_tables=False),
    Check("writable", writable, needs_tables=False),
    Check("synchronous_commit", synchronous_commit, needs_tables=False),
    Check("durability", durability, needs_tables=False),
    Check("autovacuum", autovacuum, needs_tables=False),
)
