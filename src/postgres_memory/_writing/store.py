"""`store`: one memory, one statement."""

from __future__ import annotations

from typing import Any

from .._context import Context
from .._json import encode_metadata
from .._validation import check_content
from ..embedding.counting import counts_of
from ..ids import new_id
from .embedding import vector_of
from .thread import thread_of


async def store(context: Context, content: str, metadata: dict[str, Any] | None) -> None:
    """Validate, embed, insert."""
    from .._sql.storing import store_memory

    text = check_content(content, max_bytes=context.limits.content_bytes)
    encoded = encode_metadata(metadata)
    thread = thread_of(context, metadata)
    vector = await vector_of(context, text)
    await context.fetch(
        store_memory,
        {
            "namespace": context.namespace,
            "id": new_id(),
            "content": text,
            "metadata": encoded,
            "thread_id": thread,
            "counts": await counts_of(text),
        }
        | vector,
        vector["vector"] is not None,
    )
