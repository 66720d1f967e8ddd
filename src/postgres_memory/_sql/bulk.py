"""Statements of bulk loading. New rows go by COPY; changes of rows that are there, as one JSON array."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    REAL,
    ColumnElement,
    DateTime,
    Double,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    UpdateBase,
    case,
    cast,
    column,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REGCLASS, aggregate_order_by, insert
from sqlalchemy.types import TypeEngine

from .changes import of_memories, of_relations, told
from .embedded_fields import embedded_fields, outdated_taken_away
from .embeddings import embedded_again
from .locking import in_order
from .names import qualified, quote_text
from .parameters import (
    bytes_array_parameter,
    json_parameter,
    number_parameter,
    once,
    text_parameter,
    texts_parameter,
)
from .places import language_of_namespace, next_place
from .schema import Tables

#: What an update gives a memory. Its id, its place, its time of creation and its status stay.
_CHANGED: dict[str, TypeEngine[Any]] = {
    "content": Text(),
    "metadata": JSONB(),
    "memory_type": Text(),
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


def allocate(tables: Tables) -> Select[Any]:
    """Take ``count`` numbers of the insertion order.

    Returns them with the database's time, the language of the namespace, and the next place of each of ``threads``.
    """
    name: ColumnElement[str] = literal_column(quote_text(qualified(tables.schema, "memories")))
    # Looked up once: the function is only stable, and called for every number it was half of the cost of a load.
    sequence = once(cast(func.pg_get_serial_sequence(name, literal_column("'seq'")), REGCLASS))
    series = func.generate_series(literal_column("1"), number_parameter("count")).table_valued("n")
    thread = (
        func.unnest(texts_parameter("threads"))
        .table_valued(column("id", Text), with_ordinality="position", name="thread")
        .render_derived()
    )
    places = select(func.array_agg(aggregate_order_by(next_place(tables, thread.c.id), thread.c.position)))
    return select(
        func.array_agg(func.nextval(sequence)).label("seqs"),
        func.statement_timestamp().label("now"),
        language_of_namespace(tables).label("language"),
        places.select_from(thread).scalar_subquery().label("places"),
    ).select_from(series)


def existing_memories(tables: Tables, lock: bool) -> Select[Any]:
    """Return those of some ids that exist, with status and content key; locked for an update, in the common order."""
    memories = tables.memories
    statement = select(memories.c.id, memories.c.status, memories.c.content_key).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == func.any(texts_parameter("ids"))
    )
    return in_order(tables, statement) if lock else statement


def lock_targets(tables: Tables) -> Select[Any]:
    """Return those of some ids that exist, and keep them from being deleted; locked in the common order."""
    memories = tables.memories
    return (
        select(memories.c.id)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.id == func.any(texts_parameter("ids")),
        )
        .order_by(memories.c.seq)
        .with_for_update(key_share=True, read=True)
    )


def content_holders(tables: Tables) -> Select[Any]:
    """Return which memories hold some deduped contents."""
    memories = tables.memories
    return select(memories.c.id, memories.c.content_key).where(
        memories.c.namespace == text_parameter("namespace"),
        memories.c.content_key == func.any(bytes_array_parameter("keys")),
        memories.c.status == literal_column("'active'"),
    )


def release_keys(tables: Tables) -> UpdateBase:
    """Take their content keys from some memories, so that they may change places."""
    memories = tables.memories
    return (
        update(memories)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.id == func.any(texts_parameter("ids")),
        )
        .values(content_key=null())
    )


def update_rows(tables: Tables, fielded: bool = False) -> Select[Any]:
    """Update memories by id, given as JSON, with what they are ranked by, if ``fielded`` of fields; return the ids."""
    memories, hashes = tables.memories, tables.memory_hash_embeddings
    given = _given()
    values: dict[str, Any] = {name: given.c[name] for name in _CHANGED}
    values["content_key"] = func.decode(given.c.content_key, literal_column("'hex'"))
    same = memories.c.thread_id.is_not_distinct_from(given.c.thread_id)
    values["place"] = case((same, memories.c.place), else_=next_place(tables, given.c.thread_id))
    values["updated_at"] = func.statement_timestamp()
    values["version"] = memories.c.version + literal_column("1")
    namespace = text_parameter("namespace")
    updated = (
        update(memories)
        .where(memories.c.namespace == namespace, memories.c.id == given.c.id)
        .values(values)
        .returning(
            *(memories.c[name] for name in ("namespace", "id", "seq", "expires_at", "metadata", "version")),
            *(given.c[name] for name in ("counts", "embedding", "fields")),
        )
        .cte("updated")
    )
    hashed = (
        update(hashes)
        .where(hashes.c.namespace == namespace, hashes.c.seq == updated.c.seq)
        .values(embedding=cast(updated.c.counts, tables.vector()), expires_at=updated.c.expires_at)
        .returning(hashes.c.seq)
        .cte("hashed")
    )
    fields = updated.c.fields
    statement = select(updated.c.id).add_cte(
        hashed,
        embedded_again(tables, updated, updated.c.embedding),
        outdated_taken_away(tables, updated, fields, with_given=fielded),
        *told(tables, of_memories(updated, "updated")),
    )
    return statement.add_cte(embedded_fields(tables, updated, fields)) if fielded else statement


def _given() -> TableValuedAlias:
    columns: list[ColumnElement[Any]] = [
        column("id", Text),
        column("counts", ARRAY(Integer())),
        column("embedding", ARRAY(REAL())),
        column("fields", JSONB),
        column("content_key", Text),
    ]
    columns += [column(name, kind) for name, kind in _CHANGED.items()]
    rows = func.jsonb_to_recordset(json_parameter("rows")).table_valued(*columns, name="given")
    return rows.render_derived(with_types=True)


def _given_edges() -> TableValuedAlias:
    return (
        func.jsonb_to_recordset(json_parameter("relations"))
        .table_valued(
            column("source_id", Text),
            column("target_id", Text),
            column("relation_type", Text),
            column("label", Text),
            column("confidence", Double),
            column("metadata", JSONB),
            name="given",
        )
        .render_derived(with_types=True)
    )


def insert_relations(tables: Tables) -> Select[Any]:
    """Insert relations given as JSON, over those there are."""
    relations, given = tables.memory_relations, _given_edges()
    names = ["source_id", "relation_type", "label", "target_id", "confidence", "metadata"]
    rows = select(text_parameter("namespace"), *(given.c[name] for name in names))
    statement = insert(relations).from_select(["namespace", *names], rows, include_defaults=False)
    key = ("namespace", "source_id", "relation_type", "label", "target_id")
    stored = (
        statement.on_conflict_do_update(
            index_elements=[relations.c[name] for name in key],
            set_={name: statement.excluded[name] for name in ("confidence", "metadata")},
        )
        .returning(*(relations.c[name] for name in key[1:]))
        .cte("stored")
    )
    return select(func.count()).select_from(stored).add_cte(*told(tables, of_relations(stored, "related")))
