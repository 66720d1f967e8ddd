"""Verbs on the life of a memory: replacing, restoring, archiving, expiring."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from .._context import Context
    from .._pooling import Connection
    from .._writing.purge import Purged
    from ..records import MemoryRecord
    from .record_verbs import RecordFields


class LifecycleVerbs:
    """`supersede`, `restore`, `history`, `archive` and `purge_expired`.

    At most one of the versions of a memory is active, whoever calls these verbs at once.
    """

    _context: Context

    async def supersede(
        self,
        old_id: str,
        new: str | MemoryRecord,
        *,
        idempotency_key: str | None = None,
        connection: Connection | None = None,
        **fields: Unpack[RecordFields],
    ) -> MemoryRecord:
        """Store a memory in place of another, and return the new one as it is stored.

        Give what `add` takes: a content and any fields of a record, or a whole `MemoryRecord` and no fields. The new
        memory names the old one in ``supersedes`` and inherits nothing else from it. The old one becomes SUPERSEDED,
        its version goes up by one, and `search` sees the new one only. Both happen, or neither. ``idempotency_key``
        means what it does to `add`: called again with the same key, it returns the memory that was stored then.

        Raises NotFoundError if there is no memory ``old_id``, or a relation leads to one that is not there;
        ConflictError if the old memory is not active (of two calls at once for one memory, one gets this error), if the
        new one's id is taken, or if the key was used with another payload (IdempotencyConflictError); InvalidTypeError
        or InvalidValueError for bad fields. Whatever it raises, nothing was written.
        """
        from .._writing.adding import addition_of, once, prepare
        from .._writing.supersede import check_replacement, supersede

        context = self._context.on(connection)
        addition = addition_of(context, new, dict(fields), verb="supersede")
        check_replacement(old_id, addition.record)
        prepared = await prepare(context, addition)
        return await once(
            context,
            addition,
            idempotency_key,
            lambda inside: supersede(inside, old_id, prepared),
            replaces=old_id,
        )

    async def restore(self, id: str, *, connection: Connection | None = None) -> MemoryRecord:
        """Make a superseded or archived memory ACTIVE again and return it as it is then.

        If an active memory replaced it, that one becomes ARCHIVED; the link between them stays. A memory that is active
        already is returned unchanged.

        Raises NotFoundError; ConflictError if the memory that replaced it was itself superseded, or if another version
        is active: ``id`` of the error names the one in the way. Then nothing was changed.
        """
        from .._writing.restore import restore

        return await restore(self._context.on(connection), id)

    async def history(self, id: str, *, connection: Connection | None = None) -> list[MemoryRecord]:
        """Return all versions of a memory, whatever their status, in the order in which they were stored.

        These are the memory, what it replaced, what replaced it, and so on from each of them: several may have replaced
        one, if it was restored in between. Any of them gives the same list. A version that was deleted divides what
        came before it from what came after. Raises NotFoundError.
        """
        from .._recall.history import history

        return await history(self._context.reading(connection), id)

    async def archive(self, id: str, *, connection: Connection | None = None) -> MemoryRecord:
        """Make a memory ARCHIVED, whatever its status, and return it as it is then.

        `search` does not see it any more; `get` does, and `restore` brings it back. One that is archived already is
        returned unchanged. Raises NotFoundError.
        """
        from .._writing.archive import archive

        return await archive(self._context.on(connection), id)

    async def purge_expired(
        self,
        *,
        batch_size: int = 1000,
        progress: Callable[[Purged], None] | None = None,
        connection: Connection | None = None,
    ) -> Purged:
        """Delete the expired memories and idempotency keys of this namespace, and return how many of each.

        Each batch is a transaction of its own of at most ``batch_size`` rows; what others hold at that moment is left
        for the next call. ``progress`` is called after each batch with the numbers so far. Expired memories are
        invisible to `search` without this; it frees their space. The database's clock says what has expired.

        Raises UsageError inside a transaction, where everything would stay locked until its end.
        """
        from .._writing.purge import purge_expired

        self._context.refuse_principal("purge_expired()")
        return await purge_expired(self._context.on(connection), batch_size=batch_size, progress=progress)
