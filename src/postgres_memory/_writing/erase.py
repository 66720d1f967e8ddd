"""`erase`: every trace of a namespace, or of a principal in it, in batches that hold nobody up for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._driver_errors import after_writing
from .._retrying import persistent
from .._validation import check_key, check_positive
from ..bulk_records import Erased
from ..errors import DatabaseError, InvalidValueError, UsageError

if TYPE_CHECKING:
    from asyncpg import Record

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
    """Delete memories with what hangs on them, then the rest, table by table; what was there is counted.

    What others write meanwhile may stay. The tokens of their writes must, or they would write twice what was left: so
    those that were there go first, and what they tell of is gone with the memories; those left by this go last.
    """
    _check(context, namespace, principal)
    if dry_run:
        return await _counted(context, principal)
    check_positive(batch_size, "batch_size")
    if context.connection is not None:
        raise UsageError(
            "erase() deletes each batch in a transaction of its own; call it outside of a transaction"
        )
    erasing = _Erasing(context, principal, batch_size, progress or (lambda _: None))
    if principal is None:
        await erasing.feed()
    last, tokens = await erasing.begin()
    await erasing.tokens(tokens)
    await erasing.memories(last)
    await erasing.rest()
    await erasing.own_tokens()
    if principal is None and context.embedder is not None:
        context.embedder.known.discard(context.namespace)  # what is written next needs its space again
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


_FOREIGN_KEY_VIOLATION = "23503"


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
        self._own_tokens: list[str] = []

    @property
    def counted(self) -> Erased:
        return Erased(**self._counts)

    @property
    def _has_begun(self) -> bool:
        return any(self._counts.values())

    async def begin(self) -> tuple[int | None, int]:
        """Return the number of the last memory there is, if there is one, and how many tokens there are."""
        from .._sql.erasing import last_memory

        (row,) = await self._context.fetch(last_memory, self._parameters, self._owned, repeatable=True)
        return row["last"], row["tokens"]

    async def feed(self) -> None:
        """Turn the change feed off: it tells nothing of this, and readers are not to pass over what is half gone."""
        from .._sql.reading_changes import disable_feed

        await self._context.fetch(disable_feed, self._parameters, repeatable=True)

    async def tokens(self, number: int) -> None:
        """Delete the oldest tokens of a namespace, so many at least; a principal has none of its own."""
        from .._sql.erasing import erase_rows

        left = 0 if self._owned else number
        while left > 0:
            erased = await self._outside(erase_rows, self._parameters, "write_tokens", False)
            left = 0 if erased < self._limit else left - erased

    async def memories(self, last: int | None) -> None:
        from .._sql.erasing import erase_memories

        self._parameters["last"] = last
        while last is not None and await self._batch(erase_memories, self._owned) == self._limit:
            pass

    async def rest(self) -> None:
        from .._sql.erasing import NAMING, OWNED, TABLES, erase_names, erase_rows

        for table, counter in (OWNED if self._owned else TABLES).items():
            await self._all(counter, erase_rows, table, self._owned)
        if self._owned:
            for table in NAMING:
                await self._all("access_lists", erase_names, table)

    async def own_tokens(self) -> None:
        """Delete the tokens that this left, some of which may be missing."""
        from .._sql.erasing import erase_tokens

        namespace, own = self._context.namespace, self._own_tokens
        for start in range(0, len(own), self._limit):
            tokens = own[start : start + self._limit]
            await self._outside(erase_tokens, {"namespace": namespace, "tokens": tokens})

    async def _all(self, counter: str, builder: StatementBuilder, *shape: Hashable) -> None:
        more = True
        while more:
            try:
                more = await self._batch(builder, *shape, counter=counter) == self._limit
            except DatabaseError as error:
                if error.sqlstate != _FOREIGN_KEY_VIOLATION:
                    raise
                # A space that was free is in use since: it is seen to be now.

    async def _batch(self, builder: StatementBuilder, *shape: Hashable, counter: str = "memories") -> int:
        """Delete some rows in a transaction, so that if its answer is lost the counts are not; return how many."""
        database, namespace = self._context.database, self._context.namespace

        async def run() -> Record:
            async with database.transaction(namespace=namespace, left=self._own_tokens) as connection:
                inside = replace(self._context, connection=connection)
                (row,) = await inside.fetch(builder, self._parameters, *shape)
                return row

        with after_writing(self._has_begun):
            row = await persistent(run, database.retry_for)
        counts: dict[str, int] = {
            counter if name == "count" else name: number for name, number in row.items()
        }
        self._counts.update(counts)
        self._report(self.counted)
        return counts[counter]

    async def _outside(
        self, builder: StatementBuilder, parameters: Mapping[str, Any], *shape: Hashable
    ) -> int:
        """Delete tokens by a statement that leaves none; return how many."""
        with after_writing(self._has_begun):
            (row,) = await self._context.fetch(builder, parameters, *shape, repeatable=True)
        self._counts["write_tokens"] += row["count"]
        self._report(self.counted)
        number: int = row["count"]
        return number
