"""Verbs of the change feed: turning it on and off, following it, taking away what is old."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from datetime import timedelta

    from .._context import Context
    from ..change_records import Change


class ChangeVerbs:
    """`changes`, `enable_changes`, `disable_changes` and `prune_changes`."""

    _context: Context

    def changes(
        self, since: str | None = None, *, follow: bool = True, poll_interval: float = 1.0
    ) -> AsyncGenerator[Change, None]:
        """Yield what happens to the memories of this namespace, each change at least once and none left out.

        Begins behind ``since``, the ``cursor`` of a change that was dealt with, or what `enable_changes` returned; with
        None, at the oldest change that is kept. What happened to one memory comes in the order in which it happened,
        that of its versions, and so does everything that could only happen after something else. A change is yielded
        once every transaction of the server is over that wrote before it was committed: a long one holds the feed up.

        Waits for the next change, until the iterator or this object is closed; with ``follow=False``, ends behind what
        was committed before. It has a connection of its own, on which it is woken; through a pooler that no
        ``migration_dsn`` leads past, and on a borrowed pool, it looks every ``poll_interval`` seconds. A lost
        connection is made again for as long as calls are tried again; after an error, a new call goes on from the
        cursor of the last change.

        Raises InvalidTypeError or InvalidValueError for a cursor that is damaged or of another namespace; and when it
        is iterated over ChangesOffError where the namespace has no feed, and ChangesLostError where changes behind the
        cursor are not there any more. Raises UsageError for a principal and inside a transaction.
        """
        from .._changes.follow import changes

        return changes(self._context, since, follow=follow, poll_interval=poll_interval)

    async def enable_changes(self, *, notify: bool = True) -> str:
        """Turn the change feed of this namespace on, for all who write to it, and return a cursor to its beginning.

        Every write that begins after this returns has its changes behind that cursor: what is read then, such as an
        `export`, and the changes from there on miss nothing between them. To that end it waits for the transactions
        that were under way in the database. If it is interrupted, call it again. Where the feed is on already, it is
        left as it is, and the cursor is to the oldest change that is kept.

        With ``notify``, each transaction tells those who follow, for which the server lets such transactions commit one
        after the other; without, they look every ``poll_interval`` seconds.

        Raises ConfigurationError on Citus, and UsageError for a principal and inside a transaction.
        """
        from .._changes.enable import enable_changes

        return await enable_changes(self._context, notify=notify)

    async def disable_changes(self) -> bool:
        """Turn the change feed of this namespace off; return whether it was on.

        What is kept of it goes with `prune_changes`. Turned on again, it begins anew: older cursors are refused. Raises
        UsageError for a principal and inside a transaction.
        """
        from .._changes.enable import disable_changes

        return await disable_changes(self._context)

    async def prune_changes(
        self,
        older_than: timedelta,
        *,
        batch_size: int = 1_000,
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Delete the changes of this namespace that are older than ``older_than``, and return how many there were.

        ``batch_size`` at a time, each batch in a transaction of its own, after which ``progress`` is called with how
        many there were so far. With ``dry_run`` they are counted and stay. Who has not read them by then is told so by
        ChangesLostError. Waits for the transactions that write and were under way.

        Raises InvalidTypeError or InvalidValueError for a bad duration or size, and UsageError for a principal and
        inside a transaction.
        """
        from .._changes.prune import prune_changes

        return await prune_changes(
            self._context, older_than, batch_size=batch_size, dry_run=dry_run, progress=progress
        )
