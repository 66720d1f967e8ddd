"""How far the events of a feed are decided: what the reader and the pruner of it have in common.

Why a mark that is passed is safe is said in `_sql/changes.py`, and how the statement is asked in
`_sql/reading_changes.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncpg import Record

#: Seconds between two looks at transactions that are still under way: from the first, doubled, to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1


@dataclass(slots=True)
class Marks:
    """Every number up to ``safe`` is decided; so will be those up to ``mark``, when ``barrier`` is passed."""

    safe: int = 0
    mark: int = 0
    barrier: int | None = None
    _is_fresh: bool = False
    _pause: float = _FIRST_PAUSE

    @property
    def parameters(self) -> dict[str, Any]:
        """What a read is to be given."""
        return {"safe": self.safe, "mark": self.mark, "barrier": self.barrier}

    def begin(self) -> None:
        """Want everything decided that is drawn before the read that comes next."""
        self._is_fresh, self._pause = False, _FIRST_PAUSE

    async def seen(self, row: Record) -> bool:
        """Take in what a read said; return whether that is so. If not, the next read is due when this returns."""
        if row["is_passed"] or self.mark <= self.safe:
            self.safe = max(self.safe, self.mark)
            if self._is_fresh:
                return True
            self.mark, self.barrier, self._is_fresh = row["drawn"], None, True
            return self.mark <= self.safe
        if self.barrier is None:
            # Looked at after the mark was drawn: whoever drew it had an id less than this.
            self.barrier = row["next"]
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return False
