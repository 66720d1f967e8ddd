"""A sample of the hash embeddings, computed again as `verify` does for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .._counted import counted
from .._recall.verify import differences_among, md5_problem
from .._sql.diagnosing_rows import ends_of_namespace
from .._sql.names import qualified, quote_text
from .._sql.verifying import hashes_from_python_only, hashes_with_sql
from .report import Check, Patient, Report

if TYPE_CHECKING:
    from .._recall.verify import Difference

#: In so many places of a namespace, spread evenly over it, so many memories, but no more than so many bytes of them.
PLACES, AT_ONCE, BYTES = 5, 40, 128 * 1024


async def hash_embeddings(patient: Patient, report: Report) -> None:
    """What is stored must be what Python and the server compute."""
    namespace = patient.context.namespace
    ((first, last),) = await patient.here.fetch(ends_of_namespace, {"namespace": namespace})
    problem = await md5_problem(patient.here)
    builder = hashes_with_sql if problem is None else hashes_from_python_only
    wrong: dict[str, Difference] = {}
    looked: set[int] = set()
    for place in range(PLACES if first is not None else 0):
        behind = first + (last - first) * place // PLACES - 1
        parameters = {
            "namespace": namespace,
            "after_namespace": namespace,
            "after_seq": behind,
            "batch_size": AT_ONCE,
        }
        rows = await patient.here.fetch(builder, parameters, BYTES)
        looked |= {row["seq"] for row in rows}
        found = await asyncio.to_thread(differences_among, rows)
        wrong |= {one.id: one for one in found if not one.newer_unicode}
    data: dict[str, Any] = {"namespace": namespace, "sampled": len(looked), "wrong": sorted(wrong)[:100]}
    if wrong:
        report.problem(
            f"not what their contents give: {len(wrong)} of {counted(len(looked), 'hash embedding')}",
            _correcting(patient, namespace),
            **data,
        )
    else:
        report.ok(f"hash embeddings are what their contents give ({len(looked)} looked at)", **data)


def _correcting(patient: Patient, namespace: str) -> str:
    schema = patient.known_tables.schema
    memories, hashes = qualified(schema, "memories"), qualified(schema, "memory_hash_embeddings")
    return (
        f"UPDATE {hashes} h SET embedding = {qualified(schema, 'hash_counts')}(m.content) FROM {memories} m "
        f"WHERE (m.namespace, m.seq) = (h.namespace, h.seq) AND h.namespace = {quote_text(namespace)}; "
        "-- postgres-memory verify names them all"
    )


CHECKS = (Check("hash_embeddings", hash_embeddings),)
