"""`create_metadata_index` and `drop_metadata_index`: one index on metadata, built beside readers and writers."""

from __future__ import annotations

from .._context import Context
from .._driver_errors import translated
from .filling import refuse_transaction
from .indexing import Progress, build, turn

#: What takes turns, in the place of a space; no space can have this name.
_TURN = ""


async def create_metadata_index(context: Context, *, progress: Progress | None) -> bool:
    """Remove what a failure left, then build, unless it is there."""
    from .._sql.metadata_index import create_metadata_index as statement
    from .._sql.metadata_index import drop_metadata_index as removal
    from .._sql.metadata_index import find_metadata_index

    refuse_transaction(context, "create_metadata_index")
    tables = (await context.database.opened()).tables
    async with turn(context, _TURN) as connection:
        there = await context.on(connection).fetch(find_metadata_index, {})
        if there and there[0]["valid"]:
            return False
        if there:
            with translated():
                await connection.execute(removal(tables))
        await build(context, connection, statement(tables), progress)
    return True


async def drop_metadata_index(context: Context) -> bool:
    """Drop it, whole or not."""
    from .._sql.metadata_index import drop_metadata_index as removal
    from .._sql.metadata_index import find_metadata_index

    refuse_transaction(context, "drop_metadata_index")
    tables = (await context.database.opened()).tables
    async with turn(context, _TURN) as connection:
        there = await context.on(connection).fetch(find_metadata_index, {})
        with translated():
            await connection.execute(removal(tables))
    return bool(there)
