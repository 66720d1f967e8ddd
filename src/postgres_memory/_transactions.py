"""How a transaction or a savepoint begins and ends on one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ._driver_errors import DRIVER_ERRORS, translated
from ._waiting import LETTING_GO, through
from .errors import DatabaseError, UsageError

if TYPE_CHECKING:
    from ._pooling import Connection

TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK")

READ_ONLY, _IN_FAILED_TRANSACTION = "25006", "25P02"


class CommitLostError(DatabaseError):
    """The answer to a COMMIT was lost."""


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The life of a transaction block: one statement at a time, and none after its end."""

    over: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Wait for one's turn, if the block still runs."""
        async with self.turn:
            if self.over:
                raise UsageError(
                    "this transaction is over; the verbs of memory.transaction() work inside its block"
                )
            yield

    async def end(self) -> None:
        """Let the statement under way finish and refuse those that follow."""
        self.over = True
        async with self.turn:
            pass


class LocalSettings(NamedTuple):
    """Statements that set something for the transaction they run in, and the query for those that undo it."""

    statements: str
    undoing: str


def beginning(begin: str, settings: LocalSettings | None) -> str:
    """Return the SQL that begins a transaction or a savepoint and sets what holds in it: one round trip."""
    return begin if settings is None else f"{begin}; {settings.statements}"


async def within(connection: Connection, level: int, settings: LocalSettings | None) -> tuple[str, str, str]:
    """Return what begins, ends and rolls back on the caller's ``connection``: a transaction, or a savepoint."""
    if not connection.is_in_transaction():
        begin, end, rollback = TRANSACTION
    else:
        begin, end, rollback = savepoint(level)
        if settings is not None:  # a rollback undoes them, a release does not
            with translated():
                end = f"{await connection.fetchval(settings.undoing)}; {end}"
    return beginning(begin, settings), end, rollback


def savepoint(level: int) -> tuple[str, str, str]:
    """Return the statements of a savepoint. One within another has a name of its own.

    Under one name, where the answer to the inner SAVEPOINT is not awaited to its end, the outer one's rollback would
    stop at the inner one, and keep what came between.
    """
    name = f"postgres_memory_{level}"
    return (
        f"SAVEPOINT {name}",
        f"RELEASE SAVEPOINT {name}",
        f"ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}",
    )


@asynccontextmanager
async def ended(connection: Connection, end: str, rollback: str) -> AsyncIterator[None]:
    """End what was begun when the body does: with ``end``, or after an error with ``rollback``."""
    try:
        yield
        if rollback == "ROLLBACK":
            await _committed(connection, end)
        else:
            await executed(connection, end)
    except BaseException:
        await rolled_back(connection, rollback)
        raise


async def rolled_back(connection: Connection, rollback: str) -> None:
    """Roll back, however often the caller is cancelled: half of what was begun would be committed with what follows.

    A lost connection cannot roll back, and need not: the server does. What the body raised is what counts.
    """
    with suppress(*DRIVER_ERRORS):
        await through(lambda: connection.execute(rollback, timeout=LETTING_GO))


async def executed(connection: Connection, sql: str) -> str:
    with translated():
        return await connection.execute(sql)


async def _committed(connection: Connection, commit: str) -> None:
    """Commit; raise CommitLostError where nobody knows whether it did."""
    try:
        outcome = await executed(connection, commit)
    except DatabaseError as error:
        if error.sqlstate == READ_ONLY:
            # Nothing was written, or that would have been refused before.
            await executed(connection, "ROLLBACK")
            return
        if error.sqlstate == _IN_FAILED_TRANSACTION:
            raise _rolled_back() from error
        if error.nothing_written:
            raise
        raise CommitLostError(str(error), sqlstate=error.sqlstate, nothing_written=False) from error
    if outcome == "ROLLBACK":
        # The server answers so, without an error, when a statement had failed.
        raise _rolled_back()


def _rolled_back() -> DatabaseError:
    return DatabaseError(
        "the transaction was rolled back: a statement in it had failed, or was cancelled, and that error did not leave "
        "the block",
        sqlstate=_IN_FAILED_TRANSACTION,
    )
