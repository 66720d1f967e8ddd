"""Embedding spaces: half filled, with memories that wait, large without an index, or with a weak index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._counted import counted
from .._sql.diagnosing import SETTINGS
from .._sql.diagnosing_rows import (
    count_embeddings,
    filling_spaces,
    names_of_spaces,
    sample_pending,
    spaces_of,
)
from .._sql.diagnosing_tables import COMMON_VALUES, INDEXES, TABLES
from .._sql.names import quote
from .._sql.schema_version import MINIMUM_VECTOR
from .._sql.space_index import index_prefix, parts_of_index_name
from .report import Check, Patient, Report, mebibytes

if TYPE_CHECKING:
    from asyncpg import Record

#: A space is large where an exact search reads so many numbers, each row counting for `_ROW` more: tens of
#: milliseconds. That is 104,000 rows of 32 dimensions, or 6,250 of 1,536.
LARGE, _ROW = 10_000_000, 64
#: Less than these, and the neighbours that an index finds are often not the nearest.
LEAST_M, LEAST_EF_CONSTRUCTION = 8, 32
#: pgvector's own, where an index does not say.
_M, _EF_CONSTRUCTION = 16, 64
#: So many of the newest and of the oldest memories are looked at.
SAMPLE = 5_000
#: Above this share of them a warning: a part of the memories is not found.
_MANY_PENDING = 0.1
_MOST_SPACES = 1_000
#: A row in memory while HNSW is built: the vector, its neighbours (twice m, and a tenth more above), and the rest.
_NEIGHBOUR_BYTES, _ELEMENT_BYTES, _STEP = 16 * 1.1, 136, 64 * 1024**2


async def filled_spaces(patient: Patient, report: Report) -> None:
    """A space that was begun must be finished or dropped, and no memory be left without its embedding."""
    filling = await patient.here.fetch(filling_spaces, {"limit": 100})
    for row in filling:
        of = f"the space {row['name']!r} of namespace {row['namespace']!r}"
        report.notice(
            f"{of} is being filled, and not searched before switch_space()",
            f"await memory.reembed({row['name']!r}, embedder=…); await memory.switch_space({row['name']!r}); "
            f"or, to give it up: await memory.drop_space({row['name']!r})",
            namespace=row["namespace"],
            space=row["name"],
        )
    own = await _spaces(patient, [patient.context.namespace])
    for space in own:
        if space["status"] == "active":
            await _pending(patient, space, report)
        elif space["status"] == "retired":
            report.notice(
                f"the space {space['name']!r} is retired, and its embeddings are still there",
                f"await memory.drop_space({space['name']!r}), once no process has its embedder any more",
                namespace=space["namespace"],
                space=space["name"],
            )
    if not report.findings:
        report.ok(f"no space is half filled; {len(own)} in namespace {patient.context.namespace!r}")


async def _pending(patient: Patient, space: Record, report: Report) -> None:
    parameters = {"namespace": space["namespace"], "space": space["name"], "limit": SAMPLE}
    ends = [(await patient.here.fetch(sample_pending, parameters, newest))[0] for newest in (True, False)]
    sampled, pending = max((row["sampled"], row["pending"]) for row in ends)
    pending = max(row["pending"] for row in ends)
    if not pending:
        return
    seen = (
        f"without an embedding in the space {space['name']!r}, so that a search by it does not find them: "
        f"{pending} of {counted(sampled, 'memory', 'memories')} looked at"
    )
    say = report.warning if pending > _MANY_PENDING * sampled else report.notice
    data: dict[str, Any] = {
        "namespace": space["namespace"],
        "space": space["name"],
        "sampled": sampled,
        "pending": pending,
    }
    say(seen, "await memory.embed_pending()", **data)


async def vector_indexes(patient: Patient, report: Report) -> None:
    """An index must be built well enough to find the nearest, and be read on where a filter leaves too little."""
    version = patient.server["vector_version"]
    old = version is not None and tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_VECTOR
    names = await patient.here.fetch(names_of_spaces, {"limit": _MOST_SPACES})
    spaces = {index_prefix(row["name"]): row["name"] for row in names}
    found = [index for index in await _indexes(patient) if index.valid]
    for index in found:
        space = spaces.get(index.prefix or "")
        data: dict[str, Any] = {
            "index": index.name,
            "m": index.m,
            "ef_construction": index.ef_construction,
            "space": space,
        }
        remaking = f"await memory.create_index({space!r}, m={_M}, ef_construction={_EF_CONSTRUCTION})"
        if index.method != "hnsw" or index.prefix is None:
            seen = f"the index {index.name} is not one of create_index(), and no search uses it"
            fix = f"DROP INDEX CONCURRENTLY {quote(str(patient.schema))}.{quote(index.name)};"
            report.notice(seen, fix, **data)
        elif old:
            seen = f"pgvector {version} has no iterative scan: with a filter, {index.name} finds less than there is"
            report.problem(seen, "ALTER EXTENSION vector UPDATE;", **data)
        elif index.m < LEAST_M or index.ef_construction < LEAST_EF_CONSTRUCTION:
            seen = f"the index {index.name} has m = {index.m} and ef_construction = {index.ef_construction}"
            report.warning(f"{seen}: it often misses the nearest", remaking, **data)
    if not report.findings:
        report.ok(f"no index of a space is weak ({len(found)} looked at)", indexes=len(found))


async def large_spaces(patient: Patient, report: Report) -> None:
    """A namespace with many embeddings in a space is searched by an index."""
    covered = {(index.prefix, index.dimensions) for index in await _indexes(patient) if index.valid}
    looked = 0
    for space in await _spaces(patient, await _largest_namespaces(patient)):
        looked += 1
        rows = await _rows_if_large(patient, space)
        if rows and (index_prefix(space["name"]), space["dimensions"]) not in covered:
            of = f"the space {space['name']!r} of namespace {space['namespace']!r}"
            report.warning(
                f"{of} has {rows} embeddings of {space['dimensions']} dimensions or more, and no index",
                f"await memory.create_index({space['name']!r})",
                namespace=space["namespace"],
                space=space["name"],
                rows=rows,
                dimensions=space["dimensions"],
            )
    if not report.findings:
        report.ok(f"no large space is without an index ({looked} looked at)", spaces=looked)


async def maintenance_memory(patient: Patient, report: Report) -> None:
    """An index that is to be built must fit into maintenance_work_mem, or building takes many times as long."""
    (setting,) = await patient.rows(SETTINGS, ["maintenance_work_mem"])
    given = int(setting["value"]) * 1024
    covered = {(index.prefix, index.dimensions) for index in await _indexes(patient) if index.valid}
    needed = 0
    for space in await _spaces(patient, [patient.context.namespace]):
        if (index_prefix(space["name"]), space["dimensions"]) not in covered and await _rows_if_large(
            patient, space
        ):
            rows = await _rows_of_space(patient, space["name"])
            needed = max(needed, _building_bytes(rows, space["dimensions"]))
    data: dict[str, Any] = {"maintenance_work_mem": given, "needed": needed}
    if needed > given:
        wanted = -(-needed // _STEP) * _STEP // 1024**2
        report.warning(
            f"building the largest index that is missing takes about {mebibytes(needed)}, and maintenance_work_mem is "
            f"{mebibytes(given)}",
            f"ALTER ROLE {quote(patient.server['login'])} SET maintenance_work_mem = '{wanted}MB';",
            **data,
        )
    else:
        report.ok(f"maintenance_work_mem is {mebibytes(given)}", **data)


def _building_bytes(rows: int, dimensions: int) -> int:
    return int(rows * (4 * dimensions + 2 * _M * _NEIGHBOUR_BYTES + _ELEMENT_BYTES))


async def _rows_of_space(patient: Patient, space: str) -> int:
    """Return about how many embeddings a space has in all namespaces, by the statistics."""
    (table,) = await patient.rows(TABLES, patient.schema, ["memory_embeddings"])
    shares = await patient.rows(COMMON_VALUES, patient.schema, "memory_embeddings", "space")
    share = {row["value"]: row["share"] for row in shares}
    rows = max(table["rows"], table["live"], 0)
    return int(rows * share.get(space, 0.0 if share else 1.0))


async def _largest_namespaces(patient: Patient) -> list[str]:
    """Return this namespace, and those that the statistics say hold the most embeddings."""
    rows = await patient.rows(COMMON_VALUES, patient.schema, "memory_embeddings", "namespace")
    return list({patient.context.namespace: None} | {row["value"]: None for row in rows})


async def _rows_if_large(patient: Patient, space: Record) -> int | None:
    """Return how many embeddings make a space large, if it has as many."""
    enough = max(1, LARGE // (space["dimensions"] + _ROW))
    parameters = {"namespace": space["namespace"], "space": space["name"], "limit": enough}
    ((count,),) = await patient.here.fetch(count_embeddings, parameters)
    return enough if count >= enough else None


async def _spaces(patient: Patient, namespaces: list[str]) -> list[Record]:
    return await patient.here.fetch(spaces_of, {"namespaces": namespaces, "limit": 100})


@dataclass(frozen=True, slots=True)
class _Index:
    """An approximate index; ``prefix`` and ``dimensions`` are None where its name is not one that we give."""

    name: str
    method: str
    valid: bool
    m: int
    ef_construction: int
    prefix: str | None
    dimensions: int | None


async def _indexes(patient: Patient) -> list[_Index]:
    rows = await patient.rows(INDEXES, patient.schema)
    return [
        _index(row)
        for row in rows
        if row["on_table"] == "memory_embeddings" and row["method"] in ("hnsw", "ivfflat")
    ]


def _index(row: Record) -> _Index:
    options = dict(option.split("=", 1) for option in row["options"])
    prefix, dimensions = parts_of_index_name(row["name"]) or (None, None)
    return _Index(
        row["name"],
        row["method"],
        row["valid"],
        int(options.get("m", _M)),
        int(options.get("ef_construction", _EF_CONSTRUCTION)),
        prefix,
        dimensions,
    )


CHECKS = (
    Check("filled_spaces", filled_spaces),
    Check("vector_indexes", vector_indexes),
    Check("large_spaces", large_spaces),
    Check("maintenance_memory", maintenance_memory),
)
