"""`store`: one memory, one statement."""

from __future__ import annotations

from functools import partial
from typing import Any

from .._context import Context
from .._json import encode_metadata
from .._validation import check_content
from ..embedding.counting import counts_of
from ..errors import DatabaseError
from ..ids import new_id
from .coalescing import together
from .embedding import embedded
from .rows import DEFAULTS, Row
from .thread import thread_of

_UNIQUE_VIOLATION = "23505"
#: The name of the primary key; the tables of shards add a number to it.
_KEY = "memories_pkey"


async def store(context: Context, content: str, metadata: dict[str, Any] | None) -> None:
    """Validate, embed, insert."""
    text = check_content(content, max_bytes=context.limits.content_bytes)
    parameters = {
        "namespace": context.namespace,
        "id": new_id(),
        "content": text,
        "metadata": encode_metadata(metadata),
        "thread_id": thread_of(context, metadata),
    }
    if context.principal is None:
        await together(context, Row(parameters, partial(_alone, parameters, metadata)))
    else:
        await _as_principal(context, parameters, metadata)


async def _as_principal(
    context: Context, parameters: dict[str, Any], metadata: dict[str, Any] | None
) -> None:
    """Insert a memory of the principal's own: several statements, as `add` has them.

    If it is there already, an attempt stored it whose answer was lost: its id is of our making. If it is not, what met
    it is unique by an index of the user's own.
    """
    from .._sql.adding import Beside
    from .._sql.records import get_records
    from .adding import insert_apart
    from .deduping import changing

    text = parameters["content"]
    vectors = await embedded(context, text, metadata)
    given = DEFAULTS | parameters | vectors
    given |= {"owner": context.owner, "dedupe": False, "counts": str(await counts_of(text))}
    beside = Beside(content=vectors["vector"] is not None, fields=vectors["fields"] is not None)
    row = await context.retried(lambda inside: insert_apart(inside, given, beside))
    own = {"namespace": context.namespace, "ids": [parameters["id"]]}
    if row["version"] is None and not await context.fetch(get_records, own):
        raise changing(context, parameters["id"])


async def _alone(parameters: dict[str, Any], metadata: dict[str, Any] | None, context: Context) -> None:
    from .._sql.storing import store_memory

    text = parameters["content"]
    vectors = await embedded(context, text, metadata)
    parameters |= vectors
    parameters["counts"] = str(await counts_of(text))
    shape = (vectors["vector"] is not None, vectors["fields"] is not None)
    try:
        await context.fetch(store_memory, parameters, *shape, repeatable=True)
    except DatabaseError as error:
        if not _is_there(error):
            raise


def _is_there(error: DatabaseError) -> bool:
    """Say whether the memory was stored by this very call, and the answer was lost: its id is of our making.

    What else is unique is the user's own.
    """
    constraint = getattr(error.__cause__, "constraint_name", None) or ""
    return error.sqlstate == _UNIQUE_VIOLATION and constraint.startswith(_KEY)
