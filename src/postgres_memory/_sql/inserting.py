"""Statements that insert a batch of memories, given as one JSON array: what a principal has in place of COPY.

Two statements, since the policies of what is beside a memory look for the memory, which within its own statement they
do not see.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    REAL,
    DateTime,
    Double,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    UpdateBase,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.types import TypeEngine

from .changes import of_memories, told
from .embedded_fields import embedded_fields
from .embeddings import COLUMNS, CONTENT, given_space
from .parameters import json_parameter, text_parameter
from .places import language_of_namespace, place_in_order
from .schema import Tables

#: Columns of `memories` that an item says by the same name.
_SAID: dict[str, TypeEngine[Any]] = {
    "id": Text(),
    "content": Text(),
    "metadata": JSONB(),
    "memory_type": Text(),
    "status": Text(),
    "importance": Double(),
    "confidence": Double(),
    "tags": ARRAY(Text()),
    "thread_id": Text(),
    "session_id": Text(),
    "owner": Text(),
    "readers": ARRAY(Text()),
    "writers": ARRAY(Text()),
    "expires_at": DateTime(timezone=True),
}


def insert_memories(tables: Tables) -> Select[Any]:
    """Insert the memories, numbered in the order of their positions."""
    said = _SAID | {"position": Integer(), "content_key": Text(), "created_at": DateTime(timezone=True)}
    given, now = _given(said), func.statement_timestamp()
    values: dict[str, Any] = {"namespace": text_parameter("namespace")}
    values |= {name: given.c[name] for name in _SAID}
    values["content_key"] = func.decode(given.c.content_key, literal_column("'hex'"))
    values["created_at"] = func.coalesce(given.c.created_at, now)
    values["updated_at"] = now
    values["place"] = place_in_order(tables, given.c.thread_id, given.c.position)
    values["language"] = language_of_namespace(tables)
    rows = select(*values.values()).order_by(given.c.position)
    memories = tables.memories
    stored = (
        insert(memories)
        .from_select(list(values), rows, include_defaults=False)
        .returning(memories.c.id, memories.c.version)
        .cte("stored")
    )
    return select(func.count()).select_from(stored).add_cte(*told(tables, of_memories(stored, "added")))


def insert_hashes(tables: Tables) -> UpdateBase:
    """Insert what the exact search ranks the same memories by."""
    given = _given({"id": Text(), "counts": ARRAY(Integer())})
    memories, hashes = tables.memories, tables.memory_hash_embeddings
    names = ("namespace", "seq", "status", "expires_at")
    rows = select(*(memories.c[name] for name in names), cast(given.c.counts, tables.vector())).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == given.c.id
    )
    return insert(hashes).from_select([*names, "embedding"], rows, include_defaults=False)


def insert_vectors(tables: Tables) -> UpdateBase:
    """Insert their vectors, if the space these are for is there."""
    given = _given({"id": Text(), "embedding": ARRAY(REAL())})
    memories, space = tables.memories, given_space(tables)
    rows: Select[Any] = (
        select(
            memories.c.namespace,
            space.c.name,
            CONTENT,
            memories.c.seq,
            cast(given.c.embedding, tables.vector()),
        )
        .select_from(given.join(memories, memories.c.id == given.c.id).join(space, true()))
        .where(memories.c.namespace == text_parameter("namespace"))
    )
    return insert(tables.memory_embeddings).from_select(list(COLUMNS), rows, include_defaults=False)


def insert_fields(tables: Tables) -> Select[Any]:
    """Insert the vectors of fields of their metadata, as `insert_vectors`."""
    given, memories = _given({"id": Text(), "fields": JSONB()}), tables.memories
    stored = (
        select(memories.c.namespace, memories.c.seq, given.c.fields)
        .select_from(given.join(memories, memories.c.id == given.c.id))
        .where(memories.c.namespace == text_parameter("namespace"))
        .cte("stored")
    )
    embedded = embedded_fields(tables, stored, stored.c.fields)
    return select(func.count()).select_from(stored).add_cte(embedded)


def _given(columns: dict[str, TypeEngine[Any]]) -> TableValuedAlias:
    rows = func.jsonb_to_recordset(json_parameter("rows")).table_valued(
        *(column(name, kind) for name, kind in columns.items()), name="given"
    )
    return rows.render_derived(with_types=True)
