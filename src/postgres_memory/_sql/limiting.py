"""The tables as a principal may read them, for statements that rank candidates on its behalf.

A policy keeps the server from using an index for a condition that might tell what it sees, and filters what an
approximate index returns only afterwards. So the trusted backend ranks, by the same statements, over tables that carry
the condition themselves: it is a part of the query, and limits count what meets it. What is found is read again by the
principal, under the policies.

Where a memory is looked up, the condition is checked. To read a whole namespace that way would be to look at all that
others have in it, so there what may be read comes from indexes: of what a principal owns, of what everyone may read,
and of what names somebody. Hash embeddings are read by an array of those numbers: the key is walked along once, where
a join would search it for each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Select,
    Table,
    false,
    func,
    literal_column,
    or_,
    select,
    union_all,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects.postgresql import ARRAY

from .parameters import text_parameter
from .policies import EVERYONE, PRINCIPAL
from .schema import OF_EVERYONE, OWNED, SHARED, Tables


def limited(tables: Tables, *, walks_arrays: bool) -> Tables:
    """Return the tables for reading alone: the memories a principal may read, and what belongs to those alone.

    A server that does not walk along a key by an array searches it for each number, which takes longer than to look at
    all that the namespace has where most of it may be read.
    """
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
        numbers=_table("numbers", _numbers(memories)),
        ranked=_table("ranked", _ranked(memories, hashes) if walks_arrays else of_readable),
        # Nobody can tell whose memories they are of.
        known_words=_table("known_words", select(tables.known_words).where(false())),
    )


def _numbers(memories: Table) -> CompoundSelect[Any]:
    """Return namespace and number of each memory that a principal may read, each once.

    The conditions of the indexes are written out: of a parameter the server could not tell that it meets them.
    """
    principal = text_parameter(PRINCIPAL)
    named = or_(*(principal == list_.any_() for list_ in (memories.c.readers, memories.c.writers)))
    number = select(memories.c.namespace, memories.c.seq)
    return union_all(
        number.where(memories.c.owner == principal, _as_indexed(OWNED)),
        number.where(memories.c.owner != principal, _as_indexed(OF_EVERYONE)),
        number.where(memories.c.owner != principal, _as_indexed(SHARED), named),
    )


def _as_indexed(condition: str) -> ColumnElement[bool]:
    return literal_column(f"({condition})", Boolean)


def _ranked(memories: Table, hashes: Table) -> Select[Any]:
    """Select the hash embeddings of what a principal may read of the namespace."""
    readable = _numbers(memories).subquery("readable")
    of_namespace = select(readable.c.seq).where(readable.c.namespace == text_parameter("namespace"))
    numbers = select(func.array(of_namespace.scalar_subquery()).label("seqs")).cte("readable_numbers")
    # An array, which the cast says: `ANY` of a subquery looks at its rows.
    found = cast_to(select(numbers.c.seqs).scalar_subquery(), ARRAY(BigInteger))
    return select(hashes).where(
        hashes.c.namespace == text_parameter("namespace"), hashes.c.seq == found.any_()
    )


def _table(name: str, rows: Select[Any] | CompoundSelect[Any]) -> Table:
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
