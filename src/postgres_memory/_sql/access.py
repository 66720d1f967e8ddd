"""The statement that counts accesses."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, BigInteger, BindParameter, Double, Select, Text, bindparam, column, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from .parameters import seconds, text_parameter, texts_parameter
from .schema import Tables


def touch_memories(tables: Tables) -> Select[Any]:
    """Add to the counters of memories, given as parallel arrays of ids, counts and ages of the last access.

    An age is in seconds, so that the times are the database's, whatever the callers' clocks say. The last access only
    moves forward. Returns the ids of memories that others hold at this moment, and that were therefore left out.

    Each memory is locked against deletion, so that the foreign key cannot fail; whoever is changing or deleting one is
    not waited for. Everything goes in the order of the ids, so that two processes cannot deadlock.
    """
    memories = tables.memories
    given, free = _given(), _free(tables)
    locked = (
        select(memories.c.id)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.id == func.any(texts_parameter("ids")),
            ~select(free.c.id).where(free.c.id == memories.c.id).exists(),
        )
        .order_by(memories.c.id.collate("C"))
    )
    return locked.add_cte(_touched(tables, given, free))


def _given() -> CTE:
    counts: BindParameter[Any] = bindparam("counts", type_=ARRAY(BigInteger()))
    ages: BindParameter[Any] = bindparam("ages", type_=ARRAY(Double()))
    rows = (
        func.unnest(texts_parameter("ids"), counts, ages)
        .table_valued(column("id", Text), column("count", BigInteger), column("age", Double), name="rows")
        .render_derived()
    )
    return select(rows.c.id, rows.c["count"], rows.c.age).cte("given")


def _free(tables: Tables) -> CTE:
    memories = tables.memories
    return (
        select(memories.c.namespace, memories.c.id)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.id == func.any(texts_parameter("ids")),
        )
        .order_by(memories.c.id.collate("C"))
        .with_for_update(key_share=True, read=True, skip_locked=True)
        .cte("free")
    )


def _touched(tables: Tables, given: CTE, free: CTE) -> CTE:
    access = tables.memory_access
    last_accessed = func.statement_timestamp() - seconds(given.c.age)
    rows = (
        select(free.c.namespace, free.c.id, last_accessed.label("last_accessed"), given.c["count"])
        .select_from(free.join(given, given.c.id == free.c.id))
        .order_by(free.c.id.collate("C"))
    )
    names = ["namespace", "id", "last_accessed", "access_count"]
    statement = insert(access).from_select(names, rows, include_defaults=False)
    return statement.on_conflict_do_update(
        index_elements=[access.c.namespace, access.c.id],
        set_={
            "last_accessed": func.greatest(access.c.last_accessed, statement.excluded.last_accessed),
            "access_count": access.c.access_count + statement.excluded.access_count,
        },
    ).cte("touched")
