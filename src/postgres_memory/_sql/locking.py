"""The order in which statements lock memories: that of insertion, whatever they do with them.

A statement that locks more than one memory locks all of them by `in_order`, in a CTE, before it writes any: of two
such statements one waits for the other, and neither for both. What never waits is free to take another order: counting
accesses and purging lock with SKIP LOCKED.

Outside of this order stay the memories that a foreign key locks: the ends of a relation that is stored, and those whose
``supersedes`` a deletion sets to NULL. They can meet a deletion only, and where the server then ends one of the two
transactions, it is run again (see `Context.retried`) unless it is the caller's own.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, ColumnElement, Select, select

from .schema import Tables


def in_order(tables: Tables, rows: Select[Any], *, deleting: bool = False) -> Select[Any]:
    """Return ``rows`` of memories, locked in the order of insertion; those to be deleted against relations as well."""
    memories = tables.memories
    return rows.order_by(memories.c.seq).with_for_update(of=memories, key_share=not deleting)


def doomed(tables: Tables, *conditions: ColumnElement[bool]) -> CTE:
    """Return the numbers of the memories that meet ``conditions``, locked to be deleted."""
    rows = select(tables.memories.c.seq).where(*conditions)
    return in_order(tables, rows, deleting=True).cte("doomed")
