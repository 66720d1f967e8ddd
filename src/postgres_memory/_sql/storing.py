"""Statements that write memories."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Insert, Select, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from .changes import guarded, of_memories, told
from .embedded_fields import embedded_fields
from .embeddings import embedded_new
from .known_words import forget_known_words
from .locking import doomed
from .parameters import json_parameter, spelt_counts_parameter, text_parameter
from .places import language_of_namespace, next_place
from .repeating import repeatable
from .schema import Tables


@guarded
def store_memory(tables: Tables, embedded: bool, fielded: bool = False) -> Insert:
    """Insert one memory and what it is ranked by, in one statement; if ``embedded`` or ``fielded``, vectors as well."""
    thread = text_parameter("thread_id")
    stored = (
        insert(tables.memories)
        .values(
            namespace=text_parameter("namespace"),
            id=text_parameter("id"),
            content=text_parameter("content"),
            metadata=json_parameter("metadata"),
            thread_id=thread,
            place=next_place(tables, thread),
            language=language_of_namespace(tables),
        )
        .returning(*(tables.memories.c[name] for name in _returned(tables)))
        .cte("stored")
    )
    hashes = tables.memory_hash_embeddings
    statement = (
        insert(hashes)
        .from_select(
            [hashes.c.namespace, hashes.c.seq, hashes.c.embedding],
            select(stored.c.namespace, stored.c.seq, spelt_counts_parameter("counts", tables)),
        )
        .add_cte(stored)
    )
    beside = [embedded_new(tables, stored)] if embedded else []
    if fielded:
        beside.append(embedded_fields(tables, stored))
    if tables.quiet:
        return statement.add_cte(*beside)
    return statement.add_cte(*beside, *told(tables, of_memories(stored, "added")))


def _returned(tables: Tables) -> tuple[str, ...]:
    return ("namespace", "seq") if tables.quiet else ("namespace", "seq", "id", "version")


@repeatable
def clear_memories(tables: Tables, with_words: bool) -> Select[Any]:
    """Delete every memory of a namespace and, ``with_words``, the words it was known to hold."""
    memories = tables.memories
    all_of_them = doomed(tables, memories.c.namespace == text_parameter("namespace"))
    deleted = (
        delete(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == all_of_them.c.seq)
        .returning(memories.c.id, memories.c.version)
        .cte("deleted")
    )
    statement = (
        select(func.count()).select_from(deleted).add_cte(*told(tables, of_memories(deleted, "deleted")))
    )
    return statement.add_cte(forget_known_words(tables).cte("known")) if with_words else statement
