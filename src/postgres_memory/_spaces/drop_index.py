"""`drop_index`: drop the indexes of a space beside readers and writers."""

from __future__ import annotations

from .._context import Context
from ..embedding.accepting import check_space
from .filling import refuse_transaction
from .indexing import drop, indexes_of, turn


async def drop_index(context: Context, space: str) -> bool:
    """Drop whatever there is, whole or not."""
    name = check_space(space)
    refuse_transaction(context, "drop_index")
    async with turn(context, name) as connection:
        there = await indexes_of(context.on(connection), name)
        for index in there:
            await drop(context, connection, index)
    return bool(there)
