"""What to switch on at which size: a ranking by an index, an index on metadata, autovacuum that comes sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._counted import counted
from .._sql.diagnosing import SETTINGS
from .._sql.diagnosing_rows import count_memories
from .._sql.diagnosing_tables import COMMON_VALUES, INDEXES, TABLES
from .._sql.metadata_index import METADATA_INDEX
from .._sql.names import qualified
from .report import Check, Patient, Report

if TYPE_CHECKING:
    from asyncpg import Record

#: `search` reads the 32 numbers of every hash embedding of a namespace: tens of milliseconds at so many, by the same
#: measure as `LARGE` of the embedding spaces.
LARGE_NAMESPACE = 100_000
#: A filter on metadata looks through a namespace; of so many that hold some, the few that match are found sooner by an
#: index, as docs/reference/filters.md says.
MUCH_METADATA = 100_000
#: Where less than this share of memories holds any, only the statistics tell how many those are: counting takes long.
_COUNTED_SHARE = 0.25
#: Autovacuum waits until a share of a table has changed, by default a fifth or a tenth. Of a table this large that is
#: a million rows and more, which plans do not know of, and which every scan of an index steps over while they are dead.
LARGE_TABLE, MOST_WAITING = 5_000_000, 1_000_000
#: The share at which that comes to a tenth of `MOST_WAITING` for the smallest of such tables.
_SOONER = 0.02
_SHARES = {"autovacuum_vacuum_scale_factor": "dead", "autovacuum_analyze_scale_factor": "changed"}


async def large_namespaces(patient: Patient, report: Report) -> None:
    """Where `search` reads very many memories, a ranking that goes by an index answers sooner."""
    if patient.context.ranking is not None:
        report.ok("search ranks by words or an embedder, not by reading every hash embedding", ranking=True)
        return
    sizes = await _large(patient, LARGE_NAMESPACE)
    for namespace, rows in sizes.items():
        report.notice(
            f"namespace {namespace!r} has {rows} memories or more, and search() reads the hash embedding of each",
            "PostgresMemory(…, ranking='hybrid'), by which search() ranks as recall() does; or call recall()",
            namespace=namespace,
            memories=rows,
        )
    if not report.findings:
        report.ok(f"no namespace has {LARGE_NAMESPACE} memories", ranking=False)


async def metadata_index(patient: Patient, report: Report) -> None:
    """Filters on metadata that keep little of very many memories are answered by an index."""
    indexes = {row["name"]: row["valid"] for row in await patient.rows(INDEXES, patient.schema)}
    if indexes.get(METADATA_INDEX):
        report.ok("metadata has its index", index=True)
        return
    common = await patient.rows(COMMON_VALUES, patient.schema, "memories", "metadata")
    filled = 1.0 - sum(row["share"] for row in common if row["value"] == "{}")
    for namespace, rows in (
        await _large(patient, round(MUCH_METADATA / max(filled, _COUNTED_SHARE)))
    ).items():
        if rows * filled < MUCH_METADATA - 1:  # the limit above is rounded
            continue
        report.notice(
            f"namespace {namespace!r} has {round(rows * filled)} memories with metadata or more, and a filter on it "
            "looks through all of them",
            "await memory.create_metadata_index(), if filters name metadata and keep little",
            namespace=namespace,
            memories=rows,
            with_metadata=filled,
        )
    if not report.findings:
        report.ok(f"no namespace has {MUCH_METADATA} memories with metadata", index=False)


async def large_tables(patient: Patient, report: Report) -> None:
    """Of a very large table, autovacuum must not wait for the usual share of its rows."""
    names = [table.name for table in patient.known_tables.metadata.tables.values()]
    usual = {row["name"]: float(row["value"]) for row in await patient.rows(SETTINGS, list(_SHARES))}
    for row in await patient.rows(TABLES, patient.schema, names):
        rows = int(row["live"] if row["rows"] < 0 else row["rows"])
        late = {name: share for name, share in _shares(row, usual).items() if rows * share > MOST_WAITING}
        if rows < LARGE_TABLE or not late:
            continue
        waiting = " and ".join(f"{rows * share:.0f} are {_SHARES[name]}" for name, share in late.items())
        sooner = ", ".join(f"{name} = {min(_SOONER, MOST_WAITING / rows):.6f}" for name in late)
        report.notice(
            f"{row['name']} has about {counted(rows, 'row')}, and autovacuum waits until {waiting}",
            f"ALTER TABLE {qualified(str(patient.schema), row['name'])} SET ({sooner});",
            table=row["name"],
            rows=rows,
            **late,
        )
    if not report.findings:
        report.ok("autovacuum does not wait long for any table")


def _shares(table: Record, usual: dict[str, float]) -> dict[str, float]:
    """Return by which shares autovacuum goes for a table: its own ones, else those of the server."""
    own = dict(option.split("=", 1) for option in table["options"])
    return {name: float(own.get(name, share)) for name, share in usual.items()}


async def _large(patient: Patient, enough: int) -> dict[str, int]:
    """Return the namespaces of ``enough`` memories or more: this one counted so far, others by the statistics."""
    own = patient.context.namespace
    (table,) = await patient.rows(TABLES, patient.schema, ["memories"])
    rows = max(table["rows"], 0)
    shares = await patient.rows(COMMON_VALUES, patient.schema, "memories", "namespace")
    found: dict[str, int] = {own: 0} | {row["value"]: int(rows * row["share"]) for row in shares}
    ((count,),) = await patient.here.fetch(count_memories, {"namespace": own, "limit": enough})
    found[own] = max(found[own], count)
    return {namespace: number for namespace, number in found.items() if number >= enough}


CHECKS = (
    Check("large_namespaces", large_namespaces),
    Check("metadata_index", metadata_index),
    Check("large_tables", large_tables),
)
