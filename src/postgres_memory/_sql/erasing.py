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

from .changes import of_memories, told
from .locking import in_order
from .parameters import number_parameter, text_parameter, texts_parameter
from .repeating import repeatable
from .schema import Tables

#: What a principal owns beside memories and what hangs on them, and under which name it is counted.
OWNED = {"session_messages": "messages", "idempotency_keys": "idempotency_keys"}
#: What a namespace has, in the order of deletion.
TABLES = OWNED | {
    "known_words": "known_words",
    "changes": "changes",
    "namespace_settings": "settings",
    "embedding_spaces": "spaces",
}
#: What names principals as readers and writers.
NAMING = ("memories", "session_messages")


def last_memory(tables: Tables, owned: bool) -> Select[Any]:
    """Return the number of the ``last`` memory there is, null if there is none, and how many ``tokens`` there are.

    Who goes on writing so does not keep `erase` from ending.
    """
    memories, tokens = tables.memories, tables.write_tokens
    last = select(func.max(memories.c.seq)).where(*_mine(memories, owned)).scalar_subquery()
    number = select(func.count()).where(tokens.c.namespace == text_parameter("namespace")).scalar_subquery()
    return select(last.label("last"), number.label("tokens"))


def erase_memories(tables: Tables, owned: bool) -> Select[Any]:
    """Delete up to ``limit`` memories up to the ``last``, and what hangs on them; count all of it.

    Those of ``principal``, if ``owned``.

    They are locked in the order of insertion, so that this and other statements wait for each other in one order.
    """
    memories, relations = tables.memories, tables.memory_relations
    rows = (
        select(memories.c.seq, memories.c.id)
        .where(*_mine(memories, owned), memories.c.seq <= number_parameter("last"))
        .limit(number_parameter("limit"))
    )
    some = in_order(tables, rows, deleting=True).cte("some")
    ends = select(some.c.id)
    of_these = and_(
        relations.c.namespace == text_parameter("namespace"),
        or_(relations.c.source_id.in_(ends), relations.c.target_id.in_(ends)),
    )
    deleted = (
        delete(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == some.c.seq)
        .returning(memories.c.id, memories.c.version)
        .cte("deleted")
    )
    # Where a principal's memories go, those of others stay, and so does their feed.
    events = told(tables, of_memories(deleted, "deleted")) if owned else ()

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
    return select(*counts).select_from(deleted).add_cte(*events)


def count_erasable(tables: Tables, owned: bool) -> Select[Any]:
    """Count what erasing a namespace, or what ``principal`` owns in it, would delete, under the names of its counts."""
    memories = tables.memories
    mine = _mine(memories, owned)
    some = select(memories.c.seq, memories.c.id).where(*mine).cte("some").prefix_with("MATERIALIZED")
    ends = select(some.c.id)
    relations = tables.memory_relations

    def number(name: str, table: Table, *conditions: ColumnElement[bool]) -> ColumnElement[Any]:
        rows = select(func.count()).where(table.c.namespace == text_parameter("namespace"), *conditions)
        return rows.scalar_subquery().label(name)

    counts: list[ColumnElement[Any]] = [
        select(func.count()).select_from(some).scalar_subquery().label("memories"),
        number("relations", relations, or_(relations.c.source_id.in_(ends), relations.c.target_id.in_(ends))),
        number("accesses", tables.memory_access, tables.memory_access.c.id.in_(ends)),
    ]
    for name, table in (
        ("hash_embeddings", tables.memory_hash_embeddings),
        ("embeddings", tables.memory_embeddings),
    ):
        counts.append(number(name, table, table.c.seq.in_(select(some.c.seq))))
    for table_name, name in (OWNED if owned else TABLES).items():
        table = getattr(tables, table_name)
        counts.append(number(name, table, *_mine(table, owned)))
    if owned:
        naming = [
            number(one, table, table.c.owner != text_parameter("principal"), _named(table))
            for one, table in ((name, getattr(tables, name)) for name in NAMING)
        ]
        counts.append((naming[0] + naming[1]).label("access_lists"))
    return select(*counts)


def _mine(table: Table, owned: bool) -> list[ColumnElement[bool]]:
    mine = [table.c.namespace == text_parameter("namespace")]
    return [*mine, table.c.owner == text_parameter("principal")] if owned else mine


def _named(table: Table) -> ColumnElement[bool]:
    principal = text_parameter("principal")
    return or_(principal == func.any(table.c.readers), principal == func.any(table.c.writers))


def erase_rows(tables: Tables, name: str, owned: bool) -> Select[Any]:
    """Delete up to ``limit`` rows of one table of `TABLES`; return how many."""
    table = getattr(tables, name)
    keys = list(table.primary_key.columns)
    mine = _mine(table, owned)
    if name == "embedding_spaces":
        mine.append(~_is_used(tables))
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
    some = (
        select(table.c.namespace, table.c.seq)
        .where(table.c.namespace == text_parameter("namespace"), _named(table))
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
