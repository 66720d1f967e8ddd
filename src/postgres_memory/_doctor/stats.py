"""`stats`: sizes, numbers and growth."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from .._context import Context
from .._driver_errors import translated
from .._sql.diagnosing_rows import count_by_day, count_by_kind
from .._sql.diagnosing_tables import INDEXES, TABLES
from .._validation import check_positive
from ..doctor_records import DayCount, IndexSize, MemoryCount, Stats, TableSize

if TYPE_CHECKING:
    from asyncpg import Record


async def stats(context: Context, *, all_namespaces: bool, days: int) -> Stats:
    """Ask the catalogs for sizes, and count."""
    check_positive(days, "days")
    tables = (await context.database.opened()).tables
    namespace = None if all_namespaces else context.namespace
    today = datetime.now(UTC).date()
    first = today - timedelta(days=days - 1)
    names = [table.name for table in tables.metadata.tables.values()]

    async def ask(inside: Context) -> tuple[list[Record], ...]:
        assert inside.connection is not None
        with translated():
            sizes = await inside.connection.fetch(TABLES, tables.schema, names)
            indexes = await inside.connection.fetch(INDEXES, tables.schema)
        since = datetime.combine(first, time(), UTC)
        kinds = await inside.fetch(count_by_kind, {"namespace": namespace})
        by_day = await inside.fetch(count_by_day, {"namespace": namespace, "since": since})
        return sizes, indexes, kinds, by_day

    sizes, indexes, kinds, by_day = await context.retried(ask, writes=False)
    found = sorted((_table(row) for row in sizes), key=_largest, reverse=True)
    counts = tuple(MemoryCount(**row) for row in kinds)
    return Stats(
        namespace=namespace,
        memories=sum(one.memories for one in counts),
        bytes=sum(_largest(one) for one in found),
        counts=counts,
        tables=tuple(found),
        indexes=tuple(sorted((_index(row) for row in indexes), key=lambda one: one.bytes, reverse=True)),
        growth=_growth({row["day"]: row["memories"] for row in by_day}, first, days),
    )


def _growth(counts: dict[str, int], first: date, days: int) -> tuple[DayCount, ...]:
    each = (first + timedelta(days=number) for number in range(days))
    return tuple(DayCount(day, counts.get(day.isoformat(), 0)) for day in each)


def _largest(table: TableSize) -> int:
    return table.bytes + table.long_values_bytes + table.indexes_bytes


def _table(row: Record) -> TableSize:
    rows = None if row["rows"] < 0 else int(row["rows"])
    return TableSize(row["name"], rows, row["dead"], row["bytes"], row["toast_bytes"], row["indexes_bytes"])


def _index(row: Record) -> IndexSize:
    return IndexSize(row["name"], row["on_table"], row["bytes"], row["scans"], row["valid"])
