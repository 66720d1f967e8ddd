"""Statements of export, each in the order of the file, and of import, whose rows arrive as one JSON array."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    Delete,
    Double,
    Insert,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    Update,
    and_,
    case,
    cast,
    column,
    delete,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.types import TypeEngine

from .changes import of_memories, told
from .embedded_fields import outdated_taken_away
from .embeddings import embedded_again
from .keys import content_key, holds_content
from .parameters import json_parameter, text_parameter, texts_parameter, time_parameter
from .places import language_of_namespace, place_after, place_in_order
from .records import each_by_id
from .schema import Tables

#: Columns of `memories` that a line holds by the same name.
_COLUMNS: dict[str, TypeEngine[Any]] = {
    "id": Text(),
    "content": Text(),
    "memory_type": Text(),
    "status": Text(),
    "created_at": DateTime(timezone=True),
    "updated_at": DateTime(timezone=True),
    "expires_at": DateTime(timezone=True),
    "importance": Double(),
    "confidence": Double(),
    "tags": ARRAY(Text()),
    "thread_id": Text(),
    "session_id": Text(),
    "owner": Text(),
    "readers": ARRAY(Text()),
    "writers": ARRAY(Text()),
    "version": BigInteger(),
    "metadata": JSONB(),
}
_BESIDE: dict[str, TypeEngine[Any]] = {
    "position": Integer(),
    "counts": ARRAY(Integer()),
    "deduped": Boolean(),
    "last_accessed": DateTime(timezone=True),
    "access_count": BigInteger(),
}
_MESSAGE_COLUMNS: dict[str, TypeEngine[Any]] = {
    "session_id": Text(),
    "created_at": DateTime(timezone=True),
    "message": JSONB(),
    "owner": Text(),
    "readers": ARRAY(Text()),
    "writers": ARRAY(Text()),
}


def count_lines(tables: Tables) -> Select[Any]:
    """Count what an export of a namespace holds."""

    def count(table: Any, *conditions: ColumnElement[bool]) -> ColumnElement[int]:
        counted = select(func.count()).select_from(table)
        return counted.where(table.c.namespace == text_parameter("namespace"), *conditions).scalar_subquery()

    memories = tables.memories
    columns: list[ColumnElement[Any]] = [
        count(memories).label("memories"),
        count(memories, _replaces_what_is_seen(tables)).label("supersedes"),
        count(tables.memory_relations).label("relations"),
        count(tables.session_messages).label("messages"),
    ]
    return select(*columns)


def read_memories(tables: Tables) -> Select[Any]:
    """Return the memories of a namespace in insertion order."""
    memories, access = tables.memories, tables.memory_access
    joined = memories.outerjoin(
        access, and_(access.c.namespace == memories.c.namespace, access.c.id == memories.c.id)
    )
    return (
        select(
            *(memories.c[name] for name in _COLUMNS if name != "metadata"),
            cast(memories.c.metadata, Text).label("metadata"),
            holds_content(tables).label("deduped"),
            access.c.last_accessed,
            func.coalesce(access.c.access_count, literal_column("0")).label("access_count"),
        )
        .select_from(joined)
        .where(memories.c.namespace == text_parameter("namespace"))
        .order_by(memories.c.seq)
    )


def read_supersedes(tables: Tables) -> Select[Any]:
    """Return which memory replaced which, in insertion order of the newer ones."""
    memories = tables.memories
    return (
        select(memories.c.id, memories.c.supersedes.label("replaced"))
        .where(memories.c.namespace == text_parameter("namespace"), _replaces_what_is_seen(tables))
        .order_by(memories.c.seq)
    )


def _replaces_what_is_seen(tables: Tables) -> ColumnElement[bool]:
    """Say that a memory replaced one that who is asking may read; for the trusted backend, that it replaced one."""
    memories, replaced = tables.memories, tables.memories.alias("replaced")
    there: Select[Any] = select(literal_column("1")).where(
        replaced.c.namespace == memories.c.namespace, replaced.c.id == memories.c.supersedes
    )
    return and_(memories.c.supersedes.is_not(None), there.exists())


def read_relations(tables: Tables) -> Select[Any]:
    """Return the relations of a namespace, in insertion order of their sources."""
    relations, memories = tables.memory_relations, tables.memories
    joined = relations.join(
        memories,
        and_(memories.c.namespace == relations.c.namespace, memories.c.id == relations.c.source_id),
    )
    return (
        select(
            relations.c.source_id,
            relations.c.relation_type,
            relations.c.label,
            relations.c.target_id,
            relations.c.confidence,
            cast(relations.c.metadata, Text).label("metadata"),
        )
        .select_from(joined)
        .where(relations.c.namespace == text_parameter("namespace"))
        .order_by(
            memories.c.seq,
            relations.c.relation_type.collate("C"),
            relations.c.label.collate("C"),
            relations.c.target_id.collate("C"),
        )
    )


def read_messages(tables: Tables) -> Select[Any]:
    """Return the messages of a namespace, session by session, oldest first."""
    messages = tables.session_messages
    return (
        select(
            *(messages.c[name] for name in _MESSAGE_COLUMNS if name != "message"),
            cast(messages.c.message, Text).label("message"),
        )
        .where(messages.c.namespace == text_parameter("namespace"))
        .order_by(messages.c.session_id.collate("C"), messages.c.seq)
    )


def import_memories(tables: Tables, update_existing: bool) -> Select[Any]:
    """Insert memories past or over what is there; return id and number in the insertion order of those written.

    ``now`` is what an updated memory gets as its time of update. What was embedded of its old texts is taken away.
    """
    given = _given_memories()
    stored = _stored(tables, given, update_existing)
    hashed = _hashed(tables, stored, given, update_existing)
    accessed = _accessed(tables, stored, given, update_existing)
    statement = select(stored.c.id, stored.c.seq).add_cte(hashed, accessed)
    # A line says its version, which tells nothing of whether the memory was there.
    kind = case((stored.c.is_new, literal_column("'added'", Text)), else_=literal_column("'updated'", Text))
    statement = statement.add_cte(*told(tables, of_memories(stored, kind)))
    if not update_existing:
        return statement
    return statement.add_cte(embedded_again(tables, stored), outdated_taken_away(tables, stored))


def _recordset(parameter: str, columns: dict[str, TypeEngine[Any]]) -> TableValuedAlias:
    rows = func.jsonb_to_recordset(json_parameter(parameter)).table_valued(
        *(column(name, kind) for name, kind in columns.items()), name="line"
    )
    return rows.render_derived(with_types=True)


def _given_memories() -> CTE:
    """Return the rows given, parsed once for all the statements that read them."""
    columns = _COLUMNS | _BESIDE
    lines = _recordset("rows", columns)
    return select(*(lines.c[name] for name in columns)).cte("given")


def _stored(tables: Tables, given: CTE, update_existing: bool) -> CTE:
    memories = tables.memories
    values: dict[str, Any] = {name: given.c[name] for name in _COLUMNS}
    values["namespace"] = text_parameter("namespace")
    values["content_key"] = case((given.c.deduped, content_key(given.c.owner, given.c.content)))
    values["place"] = place_in_order(tables, given.c.thread_id, given.c.position)
    values["language"] = language_of_namespace(tables)
    rows = select(*values.values()).select_from(given).order_by(given.c.position)
    statement = insert(memories).from_select(list(values), rows, include_defaults=False)
    if update_existing:
        changed: dict[str, Any] = {name: statement.excluded[name] for name in values}
        del changed["namespace"], changed["id"]
        changed["supersedes"] = null()
        changed["place"] = place_after(memories.c, statement.excluded)
        changed["updated_at"] = time_parameter("now")
        changed["version"] = func.greatest(
            memories.c.version + literal_column("1"), statement.excluded.version
        )
        statement = statement.on_conflict_do_update(
            index_elements=[memories.c.namespace, memories.c.id], set_=changed
        )
    else:
        statement = statement.on_conflict_do_nothing()
    names = [
        "namespace",
        "id",
        "seq",
        "status",
        "expires_at",
        "version",
        *(["metadata"] if update_existing else []),
    ]
    # What was there was locked to be updated, maybe by who waited for it: a snapshot does not know.
    is_new = literal_column("xmax = 0", Boolean).label("is_new")
    return statement.returning(*(memories.c[name] for name in names), is_new).cte("stored")


def _hashed(tables: Tables, stored: CTE, given: CTE, update_existing: bool) -> CTE:
    hashes = tables.memory_hash_embeddings
    names = ["namespace", "seq", "status", "expires_at", "embedding"]
    embedding = cast(given.c.counts, tables.vector())
    rows = select(*(stored.c[name] for name in names[:-1]), embedding).select_from(
        stored.join(given, stored.c.id == given.c.id)
    )
    statement = insert(hashes).from_select(names, rows, include_defaults=False)
    if update_existing:
        statement = statement.on_conflict_do_update(
            index_elements=[hashes.c.namespace, hashes.c.seq],
            set_={name: statement.excluded[name] for name in ("status", "expires_at", "embedding")},
        )
    return statement.returning(hashes.c.seq).cte("hashed")


def _accessed(tables: Tables, stored: CTE, given: CTE, update_existing: bool) -> CTE:
    access = tables.memory_access
    counters = ("last_accessed", "access_count")
    rows = (
        select(stored.c.namespace, stored.c.id, *(given.c[name] for name in counters))
        .select_from(stored.join(given, stored.c.id == given.c.id))
        .where(given.c.last_accessed.is_not(None))
    )
    statement = insert(access).from_select(["namespace", "id", *counters], rows, include_defaults=False)
    if update_existing:
        # Accesses that happened here are not forgotten.
        statement = statement.on_conflict_do_update(
            index_elements=[access.c.namespace, access.c.id],
            set_={name: func.greatest(access.c[name], statement.excluded[name]) for name in counters},
        )
    return statement.returning(access.c.id).cte("accessed")


def find_content_holders(tables: Tables) -> Select[Any]:
    """Return ids given whose deduped content another memory of the namespace holds, and that memory's id."""
    memories = tables.memories
    lines = _recordset("rows", _COLUMNS | _BESIDE)
    return (
        select(lines.c.id, memories.c.id.label("holder"))
        .select_from(
            lines.join(
                memories,
                and_(
                    memories.c.namespace == text_parameter("namespace"),
                    memories.c.content_key == content_key(lines.c.owner, lines.c.content),
                    memories.c.status == literal_column("'active'"),
                ),
            )
        )
        .where(
            lines.c.deduped,
            lines.c.status == literal_column("'active'"),
            memories.c.id != lines.c.id,
        )
        .order_by(lines.c.position)
    )


def find_memories_by_id(tables: Tables) -> Select[Any]:
    """Return which of some ids exist, each with its number in the insertion order."""
    return each_by_id(tables, select(tables.memories.c.id, tables.memories.c.seq))


def import_supersedes(tables: Tables) -> Update:
    """Say of some memories which others they replaced."""
    memories = tables.memories
    lines = _recordset("rows", {"id": Text(), "replaced": Text()})
    return (
        update(memories)
        .values(supersedes=lines.c.replaced)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.id == lines.c.id)
    )


def find_sessions(tables: Tables) -> Select[Any]:
    """Return which of some sessions have messages."""
    messages = tables.session_messages
    return (
        select(messages.c.session_id)
        .distinct()
        .where(
            messages.c.namespace == text_parameter("namespace"),
            messages.c.session_id == func.any(texts_parameter("ids")),
        )
    )


def delete_sessions(tables: Tables) -> Delete:
    """Delete every message of some sessions."""
    messages = tables.session_messages
    return delete(messages).where(
        messages.c.namespace == text_parameter("namespace"),
        messages.c.session_id == func.any(texts_parameter("ids")),
    )


def import_messages(tables: Tables) -> Insert:
    """Append messages in the order given."""
    messages = tables.session_messages
    lines = _recordset("rows", _MESSAGE_COLUMNS | {"position": Integer()})
    rows = select(text_parameter("namespace"), *(lines.c[name] for name in _MESSAGE_COLUMNS))
    return insert(messages).from_select(
        ["namespace", *_MESSAGE_COLUMNS], rows.order_by(lines.c.position), include_defaults=False
    )
