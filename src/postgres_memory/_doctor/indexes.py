"""Indexes against what the schema says: missing, invalid, or made differently."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._sql.diagnosing_rows import names_of_spaces
from .._sql.diagnosing_tables import INDEXES
from .._sql.metadata_index import METADATA_INDEX
from .._sql.names import qualified
from .._sql.space_index import index_prefix, parts_of_index_name
from .report import Check, Patient, Report

if TYPE_CHECKING:
    from asyncpg import Record

    from .._sql.required_indexes import RequiredIndex

#: What REINDEX CONCURRENTLY leaves behind where it fails: the new index half made, or the old one half gone.
_LEFT_BY_REINDEX = re.compile(r"_cc(new|old)\d*$")
#: Of so many spaces the names are compared with those of indexes.
_MOST_SPACES = 1_000


async def indexes(patient: Patient, report: Report) -> None:
    """Every index that the migrations make must be there, whole, and made as they make it; and none half made."""
    from .._sql.required_indexes import required_indexes

    required = {index.name: index for index in required_indexes(patient.known_tables)}
    there = {row["name"]: row for row in await patient.rows(INDEXES, patient.schema)}
    for name in sorted(required.keys() - there.keys()):
        _missing(required[name], report)
    prefixes = await _spaces_by_prefix(patient)
    for row in there.values():
        if not row["valid"]:
            _invalid(patient, row, required.keys(), _Others(there, prefixes), report)
        elif row["name"] in required:
            _compare(patient, row, required[row["name"]], report)
    if not report.findings:
        report.ok(f"all {len(required)} indexes of the schema are there and valid", indexes=len(there))


def _missing(index: RequiredIndex, report: Report) -> None:
    """One of a constraint is not made by itself: that keeps everybody out, and fails where there are duplicates."""
    data: dict[str, Any] = {"index": index.name, "table": index.table}
    repairable = not index.of_constraint
    report.problem(f"the index {index.name} is missing", f"{index.statement};", repairable=repairable, **data)


@dataclass(frozen=True, slots=True)
class _Others:
    """The other indexes, by name, and how the names of indexes of spaces begin."""

    there: dict[str, Record]
    prefixes: Collection[str]

    def replace(self, prefix: str, dimensions: int) -> bool:
        """Say whether another index serves what an invalid one of a space would; or nobody has the space any more."""
        if prefix not in self.prefixes:
            return True
        whole = (other for other, found in self.there.items() if found["valid"])
        return any(other.startswith(f"{prefix}{dimensions}_") for other in whole)


def _invalid(
    patient: Patient, row: Record, required: Collection[str], others: _Others, report: Report
) -> None:
    name, schema = row["name"], str(patient.schema)
    data: dict[str, Any] = {"index": name, "table": row["on_table"]}
    if row["worked_on"]:
        report.notice(
            f"the index {name} is not valid; somebody may be building it now, or its table is being vacuumed",
            "postgres-memory doctor",
            **data,
        )
        return
    of_space = parts_of_index_name(name)
    dropping = f"DROP INDEX CONCURRENTLY {qualified(schema, name)};"
    rebuilding = f"REINDEX INDEX CONCURRENTLY {qualified(schema, name)};"
    if _LEFT_BY_REINDEX.search(name):
        seen = f"the index {name} is what a failed REINDEX CONCURRENTLY left; every write pays for it"
        report.warning(seen, dropping, repairable=True, **data)
    elif of_space and others.replace(*of_space):
        seen = f"the index {name} is what a failed create_index() left, and nothing needs it; every write pays for it"
        report.warning(seen, dropping, repairable=True, **data)
    else:
        ours = of_space is not None or name == METADATA_INDEX or name in required
        report.problem(
            f"the index {name} is not valid: no query uses it", rebuilding, repairable=ours, **data
        )


def _compare(patient: Patient, row: Record, wanted: RequiredIndex, report: Report) -> None:
    found = (row["on_table"], row["is_unique"], row["method"], row["keys"], row["partial"])
    if found != (wanted.table, wanted.is_unique, wanted.method, wanted.keys, wanted.partial):
        dropping = f"DROP INDEX CONCURRENTLY {qualified(str(patient.schema), row['name'])};"
        report.problem(
            f"the index {row['name']} is not made as the schema says",
            f"{dropping} {wanted.statement};",
            index=row["name"],
            table=row["on_table"],
        )


async def space_of_index(patient: Patient, name: str) -> str:
    """Return the space that an index serves; empty where it is none of a space, or of one that is gone."""
    parts = parts_of_index_name(name)
    return "" if parts is None else (await _spaces_by_prefix(patient)).get(parts[0], "")


async def _spaces_by_prefix(patient: Patient) -> dict[str, str]:
    rows = await patient.here.fetch(names_of_spaces, {"limit": _MOST_SPACES})
    return {index_prefix(row["name"]): row["name"] for row in rows}


CHECKS = (Check("indexes", indexes),)
