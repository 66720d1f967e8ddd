"""What the writing of a deduped content does when another memory holds that content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from .._context import Context
from ..errors import ConflictError, DatabaseError

ResultT = TypeVar("ResultT")

_UNIQUE_VIOLATION = "23505"
#: What was in the way may be gone before it is read, and another may take its place.
ATTEMPTS = 10


async def unless_held(context: Context, write: Callable[[Context], Awaitable[ResultT]]) -> ResultT | None:
    """Return what ``write`` returns, or None where another memory holds the content it writes.

    A transaction of the caller's goes on after that, as ``write`` runs in a savepoint of it.
    """
    try:
        if context.connection is None:
            return await write(context)
        async with context.transaction() as inside:
            return await write(inside)
    except DatabaseError as error:
        if error.sqlstate != _UNIQUE_VIOLATION:
            raise
        return None


async def make_way(
    context: Context, id: str, *, owner: str | None = None, content: str | None = None
) -> None:
    """Return if ``id`` can be written now: expired memories hold nothing any more. Else raise ConflictError.

    ``owner`` and ``content`` are those to be written, None where the memory keeps its own.
    """
    from .._sql.keys import find_key_holder, release_expired_keys

    if await context.fetch(release_expired_keys, {"namespace": context.namespace}):
        return
    parameters = {"namespace": context.namespace, "id": id, "owner": owner, "content": content}
    for row in await context.fetch(find_key_holder, parameters):
        raise ConflictError(
            f"memory {row['id']!r}, a deduped one, has the same content",
            namespace=context.namespace,
            id=row["id"],
        )


def changing(context: Context, id: str) -> ConflictError:
    """Return the error for what is in the way again and again, and never when one looks at it."""
    return ConflictError("what is in the way keeps changing", namespace=context.namespace, id=id)
