"""`switch_space`: make another space the active one, for everybody at once."""

from __future__ import annotations

from .._context import Context
from .._validation import check_limit
from ..embedding.accepting import check_space
from ..errors import SpaceError


async def switch_space(context: Context, space: str, *, max_pending: int) -> None:
    """Change both statuses in one transaction, unless the space lacks too much."""
    name, most = check_space(space), check_limit(max_pending, "max_pending")
    await context.retried(lambda inside: _switch(inside, name, most))


async def _switch(context: Context, space: str, max_pending: int) -> None:
    from .._sql.pending import count_pending, lock_spaces
    from .._sql.spaces import retire_active, set_status

    key = {"namespace": context.namespace, "space": space}
    statuses = {row["name"]: row["status"] for row in await context.fetch(lock_spaces, key)}
    if space not in statuses:
        raise SpaceError(context.namespace, space, "is not there; reembed() makes it")
    if statuses[space] == "active":
        return
    (row,) = await context.fetch(count_pending, key, context.fields)
    if row["pending"] > max_pending:
        raise SpaceError(
            context.namespace,
            space,
            f"has no embedding for {row['pending']} memories, more than max_pending; reembed() goes on with it",
        )
    # In this order: at no moment are there two.
    await context.fetch(retire_active, key)
    await context.fetch(set_status, key, "active")
