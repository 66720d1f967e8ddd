"""Verbs for whoever runs the database: checking what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._context import Context
    from .._recall.verify import Verification


class OperationVerbs:
    """`verify`."""

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
        from .._recall.verify import verify

        return await verify(
            self._context, all_namespaces=all_namespaces, batch_size=batch_size, progress=progress
        )
