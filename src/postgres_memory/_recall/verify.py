"""`verify`: every hash embedding three times, as stored, in Python and in SQL, and every memory where they differ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._context import Context
from .._progress import tell
from .._validation import check_positive
from ..embedding.hashing import hash_counts_many, normalize
from ..embedding.unicode import differs_by_unicode_version
from ..errors import DatabaseError, DatabaseTimeoutError, DatabaseUnavailableError

if TYPE_CHECKING:
    from asyncpg import Record


@dataclass(frozen=True, slots=True)
class Difference:
    """One memory whose hash embedding is not the same in all three places.

    ``newer_unicode`` says that its content holds characters assigned after Unicode 14, whose lower case Python versions
    know differently: the one permitted reason. ``stored``, ``python`` and ``sql`` are embeddings of 32 dimensions;
    ``sql`` is None where the server cannot compute it, ``stored`` None where the row is missing.
    """

    namespace: str
    id: str
    newer_unicode: bool
    stored: tuple[float, ...] | None
    python: tuple[float, ...]
    sql: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found: how many memories were ``checked``, the ``differences`` in insertion order.

    ``sql_checked`` is False where the server refuses MD5, so that only Python could recompute; ``problem`` then
    repeats the server's words.
    """

    checked: int
    differences: tuple[Difference, ...]
    sql_checked: bool = True
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every difference is explained by newer Unicode."""
        return all(difference.newer_unicode for difference in self.differences)


async def verify(
    context: Context,
    *,
    all_namespaces: bool,
    batch_size: int,
    progress: Callable[[int, int], object] | None,
) -> Verification:
    """Walk the memories in batches and compare."""
    check_positive(batch_size, "batch_size")
    problem = await md5_problem(context)
    total = await _count(context, all_namespaces=all_namespaces)
    checked = 0
    differences: list[Difference] = []
    async for rows in _batches(
        context, all_namespaces=all_namespaces, batch_size=batch_size, sql=problem is None
    ):
        differences += await asyncio.to_thread(differences_among, rows)
        checked += len(rows)
        await tell(progress, checked, max(checked, total))
    return Verification(checked, tuple(differences), sql_checked=problem is None, problem=problem)


async def md5_problem(context: Context) -> str | None:
    """Return the server's words where it refuses MD5, as in FIPS mode, and None where it computes it."""
    from .._sql.verifying import probe_md5

    try:
        await context.fetch(probe_md5, {})
    except (DatabaseUnavailableError, DatabaseTimeoutError):
        raise
    except DatabaseError as error:
        return str(error)
    return None


async def _count(context: Context, *, all_namespaces: bool) -> int:
    from .._sql.verifying import count_memories

    parameters = {"namespace": None if all_namespaces else context.namespace}
    return int((await context.fetch(count_memories, parameters))[0][0])


async def _batches(
    context: Context, *, all_namespaces: bool, batch_size: int, sql: bool
) -> AsyncIterator[list[Record]]:
    from .._sql.verifying import hashes_from_python_only, hashes_with_sql

    builder = hashes_with_sql if sql else hashes_from_python_only
    after_namespace, after_seq = ("", 0) if all_namespaces else (context.namespace, 0)
    while rows := await context.fetch(
        builder,
        {
            "namespace": None if all_namespaces else context.namespace,
            "after_namespace": after_namespace,
            "after_seq": after_seq,
            "batch_size": batch_size,
        },
    ):
        yield rows
        after_namespace, after_seq = rows[-1]["namespace"], rows[-1]["seq"]


def differences_among(rows: list[Record]) -> list[Difference]:
    """Return what differs among rows of memories with their stored embeddings, and what the server computed."""
    counts = hash_counts_many([row["content"] for row in rows]).tolist()
    found = (_difference(row, python) for row, python in zip(rows, counts, strict=True))
    return [difference for difference in found if difference is not None]


def _difference(row: Record, counts: list[int]) -> Difference | None:
    python = normalize(counts)
    stored, sql = row["stored"], row["sql_counts"]
    if stored == counts and (sql is None or (sql == counts and row["sql_embedding"] == python)):
        return None
    return Difference(
        namespace=row["namespace"],
        id=row["id"],
        newer_unicode=differs_by_unicode_version(row["content"]),
        stored=None if stored is None else tuple(normalize(stored)),
        python=tuple(python),
        sql=None if sql is None else tuple(row["sql_embedding"]),
    )
