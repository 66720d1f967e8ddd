"""`get` and `get_many`: records by id."""

from __future__ import annotations

from collections.abc import Iterable

from .._context import Context
from ..records import MemoryRecord
from .reading import read_record, read_records


async def get(context: Context, id: str) -> MemoryRecord:
    """Return the record of one memory, whatever its status, or raise NotFoundError. It counts as an access."""
    record = await read_record(context, id)
    await context.touch([record.id])
    return record


async def get_many(context: Context, ids: Iterable[str]) -> list[MemoryRecord | None]:
    """Return the records in the order asked, None for each that is missing. Each counts as accessed once."""
    records = await read_records(context, ids)
    await context.touch({record.id for record in records if record is not None})
    return records
