"""`erase`: every trace of a namespace, or of a principal in it, in batches that hold nobody up for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from .._context import Context, Written
from .._validation import check_key, check_positive
from ..bulk_records import Erased
from ..errors import InvalidValueError, UsageError

if TYPE_CHECKING:
    from .._sql.compile import StatementBuilder


async def erase(
    context: Context,
    namespace: str | None,
    *,
    principal: str | None,
    dry_run: bool,
    batch_size: int,
    progress: Callable[[Erased], object] | None,
) -> Erased:
    """Delete memories with what hangs on them, then the rest, table by table; what was there is counted."""
    _check(context, namespace, principal)
    if dry_run:
        return await _counted(context, principal)
    check_positive(batch_size, "batch_size")
    if context.connection is not None:
        raise UsageError(
            "erase() deletes each batch in a transaction of its own; call it outside of a transaction"
        )
    erasing = _Erasing(context, principal, batch_size, progress or (lambda _: None))
    await erasing.memories()
    await erasing.rest()
    return erasing.counted


def _check(context: Context, namespace: str | None, principal: str | None) -> None:
    if (namespace is None) == (principal is None):
        raise InvalidValueError("namespace", "or principal must be given, and not both")
    if namespace is not None and namespace != context.namespace:
        raise InvalidValueError("namespace", f"must repeat the one of this object, {context.namespace!r}")
    if principal is not None:
        check_key(principal, "principal")


async def _counted(context: Context, principal: str | None) -> Erased:
    from .._sql.erasing import count_erasable

    parameters = {"namespace": context.namespace, "principal": principal}
    (row,) = await context.fetch(count_erasable, parameters, principal is not None)
    return Erased(**dict(row))


class _Erasing:
    def __init__(
        self, context: Context, principal: str | None, limit: int, report: Callable[[Erased], object]
    ) -> None:
        self._context = context
        self._owned = principal is not None
        self._parameters = {"namespace": context.namespace, "principal": principal, "limit": limit}
        self._limit = limit
        self._report = report
        self._counts: Counter[str] = Counter()

    @property
    def counted(self) -> Erased:
        return Erased(**self._counts)

    async def memories(self) -> None:
        from .._sql.erasing import erase_memories

        while True:
            rows = await self._context.once(erase_memories, self._parameters, self._owned)
            deleted: int = rows.changed if isinstance(rows, Written) else rows[0]["memories"]
            self._counts.update({"memories": deleted} if isinstance(rows, Written) else dict(rows[0]))
            self._report(self.counted)
            if deleted < self._limit:
                return

    async def rest(self) -> None:
        from .._sql.erasing import NAMING, OWNED, TABLES, erase_names, erase_rows

        for table, counter in (OWNED if self._owned else TABLES).items():
            await self._all(counter, erase_rows, table, self._owned)
        if self._owned:
            for table in NAMING:
                await self._all("access_lists", erase_names, table)

    async def _all(self, counter: str, builder: StatementBuilder, *shape: Hashable) -> None:
        while True:
            (row,) = await self._context.fetch(builder, self._parameters, *shape, repeatable=True)
            self._counts[counter] += row["count"]
            self._report(self.counted)
            if row["count"] < self._limit:
                return
