"""Statements that leave no trace of a namespace, or of a principal in it: some rows at a time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    cast,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from .locking import in_order
from .parameters import number_parameter, text_parameter, texts_parameter
from .repeating import repeatable
from .schema import Tables

#: What a principal owns beside memories and what hangs on them, and under which name it is counted.
OWNED = {"session_messages": "messages", "idempotency_keys": "idempotency_keys"}
#: What a namespace has, in the order of deletion.
TABLES = OWNED | {
    "known_words": "known_words",
    "namespace_settings": "settings",
    "embedding_spaces": "spaces",
}
#: What names principals as readers and writers.
NAMING = ("memories", "session_messages")


def erase_memories(tables: Tables, owned: bool) -> Select[Any]:
    """Delete up to ``limit`` memories, those of ``principal`` if ``owned``, and what hangs on them; count all of it.

    They are locked in the order of insertion, so that this and other statements wait for each other in one order.
    """
    memories, relations = tables.memories, tables.memory_relations
    mine = [memories.c.namespace == text_parameter("namespace")]
    if owned:
        mine.append(memories.c.owner == text_parameter("principal"))
    rows = select(memories.c.seq, memories.c.id).where(*mine).limit(number_parameter("limit"))
    some = in_order(tables, rows, deleting=True).cte("some")
    ends = select(some.c.id)
    of_these = and_(
        relations.c.namespace == text_parameter("namespace"),
        or_(relations.c.source_id.in_(ends), relations.c.target_id.in_(ends)),
    )
    deleted = (
        delete(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == some.c.seq)
        .returning(memories.c.seq)
        .cte("deleted")
    )

    def hanging(name: str, table: Table, key: str = "seq") -> ColumnElement[Any]:
        number = select(func.count()).where(
            table.c.namespace == text_parameter("namespace"), table.c[key] == some.c[key]
        )
        return number.scalar_subquery().label(name)

    # What goes by cascade is counted in the statement's snapshot, before it goes.
    counts = (
        func.count().label("memories"),
        select(func.count()).select_from(relations).where(of_these).scalar_subquery().label("relations"),
        hanging("accesses", tables.memory_access, "id"),
        hanging("hash_embeddings", tables.memory_hash_embeddings),
        hanging("embeddings", tables.memory_embeddings),
    )
    return select(*counts).select_from(deleted)


def erase_rows(tables: Tables, name: str, owned: bool) -> Select[Any]:
    """Delete up to ``limit`` rows of one table of `TABLES`; return how many."""
    table = getattr(tables, name)
    mine = [table.c.namespace == text_parameter("namespace")]
    if name == "embedding_spaces":
        mine.append(~_is_used(tables))
    if owned:
        mine.append(table.c.owner == text_parameter("principal"))
    keys = list(table.primary_key.columns)
    some = (
        select(*keys)
        .where(*mine)
        .order_by(*keys)
        .limit(number_parameter("limit"))
        .with_for_update()
        .cte("some")
    )
    same = and_(*(column == some.c[column.name] for column in keys))
    deleted = delete(table).where(same).returning(table.c.namespace).cte("deleted")
    return select(func.count().label("count")).select_from(deleted)


def _is_used(tables: Tables) -> ColumnElement[bool]:
    """Whether a memory that was written meanwhile has its embedding in a space: that space stays."""
    embeddings, spaces = tables.memory_embeddings, tables.embedding_spaces
    in_it = and_(embeddings.c.namespace == spaces.c.namespace, embeddings.c.space == spaces.c.name)
    return select(literal_column("1")).select_from(embeddings).where(in_it).correlate(spaces).exists()


@repeatable
def erase_tokens(tables: Tables) -> Select[Any]:
    """Delete some tokens of writes; return how many."""
    table = tables.write_tokens
    mine = and_(
        table.c.namespace == text_parameter("namespace"),
        table.c.token == func.any(cast(texts_parameter("tokens"), ARRAY(UUID))),
    )
    deleted = delete(table).where(mine).returning(table.c.namespace).cte("deleted")
    return select(func.count().label("count")).select_from(deleted)


def erase_names(tables: Tables, name: str) -> Select[Any]:
    """Take ``principal`` from the readers and writers of up to ``limit`` rows of others; return how many."""
    table = getattr(tables, name)
    principal = text_parameter("principal")
    named = or_(principal == func.any(table.c.readers), principal == func.any(table.c.writers))
    some = (
        select(table.c.namespace, table.c.seq)
        .where(table.c.namespace == text_parameter("namespace"), named)
        .order_by(table.c.seq)
        .limit(number_parameter("limit"))
        .with_for_update(key_share=True)
        .cte("some")
    )
    changed = (
        update(table)
        .where(table.c.namespace == text_parameter("namespace"), table.c.seq == some.c.seq)
        .values(
            readers=func.array_remove(table.c.readers, principal),
            writers=func.array_remove(table.c.writers, principal),
        )
        .returning(literal_column("1").label("one"))
        .cte("changed")
    )
    return select(func.count().label("count")).select_from(changed)
