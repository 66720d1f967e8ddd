"""The tables as a principal may read them, for statements that rank candidates on its behalf.

A policy keeps the server from using an index for a condition that might tell what it sees, and filters what an
approximate index returns only afterwards. So the trusted backend ranks, by the same statements, over tables that carry
the condition themselves: it is a part of the query, and limits count what meets it. What is found is read again by the
principal, under the policies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from sqlalchemy import ColumnElement, FromClause, Select, Table, false, literal_column, or_, select

from .parameters import text_parameter
from .policies import EVERYONE, PRINCIPAL
from .schema import Tables


def limited(tables: Tables) -> Tables:
    """Return the tables for reading alone: the memories a principal may read, and what belongs to those alone."""
    memories, hashes, relations = tables.memories, tables.memory_hash_embeddings, tables.memory_relations
    of_readable = select(hashes).where(_readable(memories, "memory_of_hash", hashes, "seq"))
    between_readable = select(relations).where(
        _readable(memories, "source_of_relation", relations, "id", "source_id"),
        _readable(memories, "target_of_relation", relations, "id", "target_id"),
    )
    return replace(
        tables,
        memories=_table("memories", select(memories).where(may_read(memories))),
        memory_hash_embeddings=_table("memory_hash_embeddings", of_readable),
        memory_relations=_table("memory_relations", between_readable),
        # Nobody can tell whose memories they are of.
        known_words=_table("known_words", select(tables.known_words).where(false())),
    )


def _table(name: str, rows: Select[Any]) -> Table:
    """Return a subquery: to a statement that reads, it is as good as a table."""
    return cast(Table, rows.subquery(name))


def _readable(
    memories: Table, name: str, rows: Table, key: str, column: str | None = None
) -> ColumnElement[bool]:
    """Say that the memory ``rows`` belong to, by this column, may be read; ``name`` is its alias."""
    memory = memories.alias(name)
    there: Select[Any] = select(literal_column("1")).where(
        memory.c.namespace == rows.c.namespace, memory.c[key] == rows.c[column or key], may_read(memory)
    )
    return there.exists()


def may_read(memories: FromClause) -> ColumnElement[bool]:
    """Return the condition that the policy of memories sets, for the parameter ``principal``."""
    principal = text_parameter(PRINCIPAL)
    everyone: ColumnElement[str] = literal_column(f"'{EVERYONE}'")
    lists = (memories.c.readers, memories.c.writers)
    return or_(
        memories.c.owner == principal,
        *(name == list_.any_() for list_ in lists for name in (principal, everyone)),
    )
