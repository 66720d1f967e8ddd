"""`changes`: the events of a namespace, one after the other, from a cursor on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from .._context import Context
from .._retrying import persistent
from .._validation import check_seconds
from ..change_records import Change, ChangeKind
from ..errors import ChangesLostError, ChangesOffError, ClosedError, DatabaseError, UsageError
from ..records import MemoryRelationType
from .cursors import cursor_of, number_of
from .listening import Ear
from .marks import Marks

if TYPE_CHECKING:
    from asyncpg import Record

#: Events that are read at once.
_PAGE = 500


def changes(
    context: Context, since: str | None, *, follow: bool, poll_interval: float
) -> AsyncGenerator[Change, None]:
    """Check what is asked, and give what yields the events."""
    context.refuse_principal("changes()")
    if context.connection is not None:
        raise UsageError("changes() sees what others commit; call it outside of a transaction")
    after = None if since is None else number_of(context.namespace, since)
    return _Following(context, after).events(follow, check_seconds(poll_interval, "poll_interval"))


class _Following:
    """A reader of a feed: where it is, and how it is woken."""

    def __init__(self, context: Context, after: int | None) -> None:
        self._context = context
        self._after = after
        self._marks = Marks()
        self._ear = Ear(context)

    async def events(self, follow: bool, poll_interval: float) -> AsyncGenerator[Change, None]:
        async with self._ear as ear:
            while True:
                ear.forget()
                self._marks.begin()
                is_read = False
                while not is_read:
                    try:
                        rows = await persistent(self._read, self._context.database.retry_for)
                    except ClosedError:
                        if ear.is_over:
                            return
                        raise
                    self._refuse_gap(rows[0])
                    there = [row for row in rows if row["seq"] is not None]
                    for row in there:
                        self._after = row["seq"]
                        yield self._change(row)
                    is_read = await self._marks.seen(rows[0]) and len(there) < _PAGE
                if not follow:
                    return
                await ear.wait(poll_interval)

    async def _read(self) -> list[Record]:
        from .._sql.reading_changes import read_changes

        self._context.database.refuse_if_closed()
        parameters = self._marks.parameters | {
            "namespace": self._context.namespace,
            "after": self._after,
            "limit": _PAGE,
        }
        try:
            at = self._context.on(await self._ear.connection())
            return await at.fetch(read_changes, parameters)
        except DatabaseError:
            self._marks = (
                Marks()
            )  # a server that crashed may give transaction ids again that nobody wrote with
            await self._ear.let_go(abruptly=True)
            raise

    def _refuse_gap(self, row: Record) -> None:
        """Raise where there is no feed, and where what comes after the cursor is not all there."""
        namespace, kept_from = self._context.namespace, row["kept_from"]
        if kept_from is None:
            raise ChangesOffError(namespace)
        if self._after is None:
            self._after = kept_from
        elif not kept_from <= self._after <= row["drawn"]:
            raise ChangesLostError(namespace, since=cursor_of(namespace, self._after))

    def _change(self, row: Record) -> Change:
        kind = row["relation_type"]
        return Change(
            cursor=cursor_of(self._context.namespace, row["seq"]),
            kind=ChangeKind(row["kind"]),
            namespace=self._context.namespace,
            id=row["memory_id"],
            version=row["version"],
            at=row["created_at"],
            target_id=row["target_id"],
            relation_type=None if kind is None else MemoryRelationType(kind),
            label=row["label"],
        )
