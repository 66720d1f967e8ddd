"""Verbs for whoever runs the database: checking what is stored, and leaving no trace of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._context import Context
    from .._recall.verify import Verification
    from ..bulk_records import Erased


class OperationVerbs:
    """`verify` and `erase`."""

    _context: Context

    async def verify(
        self,
        *,
        all_namespaces: bool = False,
        batch_size: int = 500,
        progress: Callable[[int, int], object] | None = None,
    ) -> Verification:
        """Recompute every hash embedding in Python and in SQL and compare both with what is stored.

        Reads this namespace, or all of them, in batches; changes nothing. ``progress`` is called with the number of
        memories checked and the number there were at the beginning. The result lists every memory where the three
        differ, and says whether characters newer than Unicode 14 explain it; see Verification.
        """
        self._context.refuse_principal("verify()")
        from .._recall.verify import verify

        return await verify(
            self._context, all_namespaces=all_namespaces, batch_size=batch_size, progress=progress
        )

    async def erase(
        self,
        namespace: str | None = None,
        *,
        principal: str | None = None,
        dry_run: bool = False,
        batch_size: int = 1_000,
        progress: Callable[[Erased], object] | None = None,
    ) -> Erased:
        """Delete every trace of this namespace, or of a principal in it, and return how much that was.

        ``namespace`` repeats the name of this object's, so that nobody erases another one by mistake: its memories
        with their versions, access counts, relations and embeddings, the messages of its sessions, idempotency keys,
        known words, settings, embedding spaces and write tokens. With ``principal``: what that principal owns of
        memories, messages and idempotency keys; and its name is taken from the readers and writers of others'. With
        ``dry_run``, all this is only counted.

        Deletes ``batch_size`` rows at a time, each batch in a transaction of its own, so that others wait for none of
        them for long; ``progress`` is called with the counts after each. If it is interrupted, call it again: the
        counts are then of the rest. Writers should have stopped: what they store meanwhile may stay. Rows that
        PostgreSQL has deleted stay in its files until VACUUM, and in backups and on replicas for as long as those keep
        them.

        Raises InvalidValueError for another name than this object's, and UsageError inside a transaction.
        """
        self._context.refuse_principal("erase()")
        from .._writing.erase import erase

        return await erase(
            self._context,
            namespace,
            principal=principal,
            dry_run=dry_run,
            batch_size=batch_size,
            progress=progress,
        )
