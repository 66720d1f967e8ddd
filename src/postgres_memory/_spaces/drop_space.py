"""`drop_space`: delete a space that is not the active one, with its embeddings, a batch at a time."""

from __future__ import annotations

from .._context import Context
from .._validation import check_positive
from ..embedding.accepting import check_space
from ..errors import SpaceError
from .filling import refuse_transaction


async def drop_space(context: Context, space: str, *, batch_size: int) -> int:
    """Have nobody search it, delete its embeddings, then the rest and the space in one transaction."""
    from .._sql.spaces import begin_dropping, delete_embeddings, get_space

    check_positive(batch_size, "batch_size")
    refuse_transaction(context, "drop_space")
    key = {"namespace": context.namespace, "space": check_space(space)}
    if not await context.fetch(begin_dropping, key):
        if await context.fetch(get_space, key):
            raise SpaceError(
                context.namespace, space, "is the active one; switch_space() to another one first"
            )
        raise SpaceError(context.namespace, space, "is not there")
    dropped: int = 0
    after: int = 0
    while True:
        (row,) = await context.fetch(delete_embeddings, key | {"after": after, "limit": batch_size})
        dropped += row["count"]
        if row["count"] < batch_size:
            break
        after = row["last"]
    return dropped + await context.retried(lambda inside: _end(inside, key))


async def _end(context: Context, key: dict[str, str]) -> int:
    from .._sql.spaces import delete_rest, delete_space, lock_space

    rows = await context.fetch(lock_space, key)
    if not rows:
        return 0  # another call was faster
    if rows[0]["status"] != "filling":
        raise SpaceError(key["namespace"], key["space"], "was made active while it was dropped")
    rest = await context.fetch(delete_rest, key)
    await context.fetch(delete_space, key)
    return len(rest)
