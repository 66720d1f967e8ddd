"""`add` under a new id: with other calls in one statement, as `store` is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .._context import Context
from ..embedding.hashing import normalize
from ..records import MemoryRecord
from .adding import Addition, Prepared, add, parameters_of, prepare
from .coalescing import together
from .rows import Row

if TYPE_CHECKING:
    from asyncpg import Record


async def add_among_others(context: Context, addition: Addition) -> MemoryRecord:
    """Store what nothing can meet, and return it as it is stored."""
    if addition.record.embedding is not None:  # it is to be compared before anything is written
        return await _alone(addition, context)
    parameters = parameters_of(context, addition)
    row = Row(parameters, partial(_alone, addition), partial(_answer, addition))
    record: MemoryRecord = await together(context, row)
    return record


async def _alone(addition: Addition, context: Context) -> MemoryRecord:
    return await add(context, addition, await prepare(context, addition))


def _answer(addition: Addition, stored: Record, counts: list[int]) -> MemoryRecord:
    record = replace(addition.record, embedding=tuple(normalize(counts)))
    return Prepared(record, {}).as_stored(stored)
