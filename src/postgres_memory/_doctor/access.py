"""Access control: whether the login is the trusted backend, and whether policies bind who they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._sql.diagnosing import ACCESS
from .._sql.names import qualified, quote
from .report import Check, Patient, Report

if TYPE_CHECKING:
    from asyncpg import Record


async def trusted_login(patient: Patient, report: Report) -> None:
    """The login must have the rights of the owner of the tables, and needs no more."""
    rows = await patient.rows(ACCESS, patient.schema)
    login = next(row for row in rows if row["is_login"])
    name, owner = login["role"], login["owner"]
    data: dict[str, Any] = {
        "login": name,
        "owner": owner,
        "superuser": login["superuser"],
        "bypasses_row_level_security": login["bypasses"],
        "acts_as_owner": login["acts_as_owner"],
    }
    if not login["acts_as_owner"]:
        granted = f"GRANT {quote(owner)} TO {quote(name)};"
        report.problem(
            f"policies bind the login {name!r}: it does not have the rights of {owner!r}, who owns the tables, so that "
            "it sees no memory and is not the trusted backend",
            f"{granted} ALTER ROLE {quote(name)} INHERIT;",
            **data,
        )
    elif login["superuser"]:
        report.notice(
            f"the login {name!r} is a superuser, and the trusted backend needs no more than to own the tables",
            "CREATE ROLE app LOGIN PASSWORD '…'; and give it the schema, as docs/howto/check-a-database.md says",
            **data,
        )
    else:
        report.ok(f"policies do not bind the login {name!r}, which has the rights of {owner!r}", **data)


async def row_level_security(patient: Patient, report: Report) -> None:
    """Policies must be on for every table, and bind the role that principals act as."""
    rows = await patient.rows(ACCESS, patient.schema)
    for name in rows[0]["unprotected"]:
        table = qualified(str(patient.schema), name)
        report.problem(
            f"row-level security is not enabled on {name}",
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;",
            table=name,
        )
    roles = [row for row in rows if not row["is_login"]]
    for row in roles:
        _role(row, report)
    if not roles:
        report.problem("no role has the rights of principals", "postgres-memory migrate", roles=[])
    if not report.findings:
        names = [row["role"] for row in roles]
        report.ok(f"policies bind the role of principals ({', '.join(names)})", roles=names)


def _role(row: Record, report: Report) -> None:
    name = row["role"]
    if row["superuser"] or row["bypasses"]:
        report.problem(
            f"no policy binds the role {name!r}: it is a superuser or has BYPASSRLS",
            f"ALTER ROLE {quote(name)} NOSUPERUSER NOBYPASSRLS;",
            role=name,
        )
    elif row["is_member"]:
        report.problem(
            f"no policy binds the role {name!r}: it is a member of {row['owner']!r}, who owns the tables",
            f"REVOKE {quote(row['owner'])} FROM {quote(name)};",
            role=name,
        )


CHECKS = (Check("trusted_login", trusted_login), Check("row_level_security", row_level_security))
