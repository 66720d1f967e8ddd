"""`embed_pending`: embed the memories that have no vector in the active space."""

from __future__ import annotations

from .._context import Context
from .._validation import check_limit, check_positive
from ..errors import UsageError
from ..space_records import EmbedResult
from .filling import Filling, Progress, refuse_transaction
from .registering import learn_dimensions, register


async def embed_pending(
    context: Context, *, batch_size: int, limit: int | None, progress: Progress | None
) -> EmbedResult:
    """Make sure that the active space is that of the object's embedder, and fill it."""
    check_positive(batch_size, "batch_size")
    at_most = None if limit is None else check_limit(limit)
    refuse_transaction(context, "embed_pending")
    embedder = context.embedder
    if embedder is None:
        raise UsageError("embed_pending() needs the embedder of the active space; give PostgresMemory one")
    active = await _active(context)
    if active is None:
        await learn_dimensions(embedder)
        await register(context, embedder, anew=True)
        active = await _active(context)
    if active != embedder.space:
        raise UsageError(
            f"the active embedding space is {active!r}, and this object's embedder is that of {embedder.space!r}; "
            f"reembed({embedder.space!r}) fills that one"
        )
    return await Filling(context, embedder, batch_size, limit=at_most, progress=progress).run()


async def _active(context: Context) -> str | None:
    from .._sql.spaces import get_active_space

    (row,) = await context.fetch(get_active_space, {"namespace": context.namespace})
    name: str | None = row["name"]
    return name
