"""`enable_changes` and `disable_changes`: whether a namespace has a change feed."""

from __future__ import annotations

import asyncio

from .._context import Context
from .._driver_errors import translated
from ..errors import ConfigurationError, UsageError
from .cursors import cursor_of

#: Seconds between two looks at transactions that are to end: from the first, doubled, to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.25


async def enable_changes(context: Context, *, notify: bool) -> str:
    """Turn it on, then wait for the transactions that may not have seen that: those that were under way."""
    from .._sql.reading_changes import PREPARED, RUNNING, enable_feed

    _refuse(context, "enable_changes")
    await _refuse_spread(context)
    ((number,),) = await context.fetch(enable_feed, {"namespace": context.namespace, "notify": bool(notify)})
    context.database.fed.add(context.namespace)
    for under_way in (RUNNING, PREPARED):  # who runs may be prepared before it ends
        left, pause = await _running(context, under_way), _FIRST_PAUSE
        while left:
            await asyncio.sleep(pause)
            left, pause = left & await _running(context, under_way), min(2 * pause, _LONGEST_PAUSE)
    return cursor_of(context.namespace, number)


async def disable_changes(context: Context) -> bool:
    """Turn it off; return whether it was on."""
    from .._sql.reading_changes import disable_feed

    _refuse(context, "disable_changes")
    async with context.transaction() as inside:
        return bool(await inside.fetch(disable_feed, {"namespace": context.namespace}))


def _refuse(context: Context, verb: str) -> None:
    context.refuse_principal(f"{verb}()")
    if context.connection is not None:
        raise UsageError(f"{verb}() commits; call it outside of a transaction")


async def _refuse_spread(context: Context) -> None:
    from .._sql.reading_changes import SPREAD

    async with context.database.acquired() as connection:
        with translated():
            if await connection.fetchval(SPREAD):
                raise ConfigurationError(
                    "a change feed needs one server: with Citus, transactions of several write a table"
                )


async def _running(context: Context, under_way: str) -> set[str]:
    """Return transactions ``under_way`` in this database."""
    async with context.database.acquired() as connection:
        with translated():
            return {row["running"] for row in await connection.fetch(under_way)}
