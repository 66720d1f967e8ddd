"""Verbs for whoever runs the database: checking it and what is stored, its figures, and leaving no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._context import Context
    from .._recall.verify import Verification
    from ..bulk_records import Erased
    from ..doctor_records import Diagnosis, Stats


class OperationVerbs:
    """`doctor`, `stats`, `verify` and `erase`."""

    _context: Context

    async def doctor(self, *, repair: bool = False) -> Diagnosis:
        """Examine the server, the schema, its indexes and tables, the connections to it, and what is stored.

        Every check says what it saw, and where that is not as it should be, how bad it is and exactly what puts it
        right; see Finding. Checks read catalogs and samples of a bounded size, write nothing, and take no lock but what
        any reader takes; each statement ends after 5 seconds, and waits 1 second for who changes a table. What the
        login may not see, or not in time, is a finding that says it could not be checked. Memories and embeddings are
        looked at in this namespace, everything else in the whole schema.

        ``repair=True`` then puts indexes right beside readers and writers: those that are not valid are rebuilt or
        dropped, and those that are missing are made, unless they belong to a constraint. It waits as `create_index`
        does, and examines again. What it ran, and what failed, is in ``repairs``.

        Raises DatabaseUnavailableError or DatabaseTimeoutError if there is no answer, UsageError inside a transaction,
        and with ``repair`` ConfigurationError behind a pooler where no migration_dsn leads past it.
        """
        self._context.refuse_principal("doctor()")
        from .._doctor.doctor import doctor

        return await doctor(self._context, repair=repair)

    async def stats(self, *, all_namespaces: bool = False, days: int = 30) -> Stats:
        """Return how many memories there are, by type and status and by day of creation, and how large everything is.

        Memories are counted in this namespace, or in all of them, which takes time with their number. Sizes are in
        bytes, of the whole schema, and the rows of tables are the estimates of the statistics. ``days`` is how many
        days of growth are shown, today being the last (UTC).

        Raises InvalidTypeError or InvalidValueError if ``days`` is not a positive number.
        """
        self._context.refuse_principal("stats()")
        from .._doctor.stats import stats

        return await stats(self._context, all_namespaces=all_namespaces, days=days)

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
        known words, change feed, settings, embedding spaces and write tokens. With ``principal``: what that principal
        owns of memories, messages and idempotency keys; and its name is taken from the readers and writers of others'.
        With ``dry_run``, all this is only counted.

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
