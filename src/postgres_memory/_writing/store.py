"""`store`: one memory, one statement."""

from __future__ import annotations

from typing import Any

from .._context import Context
from .._json import encode_metadata
from .._validation import check_content
from ..embedding.counting import counts_of
from ..errors import DatabaseError
from ..ids import new_id
from .adding import add, addition_of, prepare
from .embedding import embedded
from .thread import thread_of

_UNIQUE_VIOLATION = "23505"


async def store(context: Context, content: str, metadata: dict[str, Any] | None) -> None:
    """Validate, embed, insert."""
    if context.principal is not None:
        # Several statements, as `add` has them.
        addition = addition_of(
            context, content, {} if metadata is None else {"metadata": metadata}, verb="store"
        )
        await add(context, addition, await prepare(context, addition))
        return
    from .._sql.storing import store_memory

    text = check_content(content, max_bytes=context.limits.content_bytes)
    encoded = encode_metadata(metadata)
    thread = thread_of(context, metadata)
    vectors = await embedded(context, text, metadata)
    parameters = {
        "namespace": context.namespace,
        "id": new_id(),
        "content": text,
        "metadata": encoded,
        "thread_id": thread,
        "counts": await counts_of(text),
    } | vectors
    shape = (vectors["vector"] is not None, vectors["fields"] is not None)
    try:
        await context.fetch(store_memory, parameters, *shape, repeatable=True)
    except DatabaseError as error:
        # The id is of our making: it was stored by this very call, and the answer was lost.
        if error.sqlstate != _UNIQUE_VIOLATION:
            raise
