"""Tokens of writes, as the client makes and reads them. Each begins with the time, by which old ones are deleted.

That is the server's time, which is asked once and then told by a clock that nobody sets: the clocks of clients may
differ by any amount, and jump.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ._driver_errors import translated
from .errors import OutcomeUnknownError
from .ids import new_id

if TYPE_CHECKING:
    from asyncpg import Record

    from ._pooling import Connection

_NOW = "SELECT (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint"
#: Goes on while the machine sleeps; not every system has it.
_STEADY = getattr(time, "CLOCK_BOOTTIME", None)


def _steady() -> int:
    return time.monotonic_ns() if _STEADY is None else time.clock_gettime_ns(_STEADY)


class Tokens:
    """Makes tokens, with the time of the server."""

    def __init__(self) -> None:
        self._ahead = time.time_ns() - _steady()

    async def ask(self, connection: Connection) -> None:
        """Learn what time it is at the server."""
        with translated():
            microseconds: int = await connection.fetchval(_NOW)
        self._ahead = microseconds * 1_000 - _steady()

    def new(self) -> str:
        """Return a token that no other write has."""
        return new_id(_steady() + self._ahead)


def changed_by(row: Record) -> int | None:
    """Return what a claimed token says: how many rows its write changed, None if there was none.

    Raises OutcomeUnknownError where the token may have been deleted since.
    """
    if not row["is_known"]:
        raise OutcomeUnknownError(
            "it was asked so late, by the server's clock, that what tells may be deleted"
        )
    changed: int = row["changed"]
    return None if changed < 0 else changed


class Written(NamedTuple):
    """A write that had happened, though its answer was lost; ``changed`` says how many rows it changed."""

    changed: int
