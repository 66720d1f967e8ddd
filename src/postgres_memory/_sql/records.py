"""Reading whole records: the columns a record is made of, and the row turned into one."""

from __future__ import annotations

from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Text,
    and_,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL, aggregate_order_by

from .._json import decode_metadata
from .._relation_json import decode_relations
from ..records import (
    MemoryRecord,
    MemoryStatus,
    MemoryType,
    permissions_of,
    record_from_values,
)
from .calls import may_write, of_pgvector
from .keys import content_key
from .parameters import apart_from_planning, text_parameter, texts_parameter
from .schema import Tables


class Row(Protocol):
    """What is read by column name: asyncpg's Record, or a dict."""

    def __getitem__(self, key: str, /) -> Any: ...


_PLAIN = (
    "id",
    "content",
    "namespace",
    "created_at",
    "updated_at",
    "importance",
    "confidence",
    "thread_id",
    "session_id",
    "expires_at",
    "supersedes",
    "version",
)

_CONVERTED = ("memory_type", "status", "tags", "owner", "readers", "writers")

#: Every column of a memory that `select_records` reads, for RETURNING clauses that feed it.
RECORD_COLUMNS = (*_PLAIN, *_CONVERTED, "metadata", "seq")


def select_records(
    tables: Tables, memories: FromClause | None = None, *, base: FromClause | None = None
) -> Select[Any]:
    """Select whole records from ``memories``: the table itself, or something with its columns.

    ``base`` is what stands in FROM, where that is more than ``memories``.
    """
    source = tables.memories if memories is None else memories
    access, hashes = tables.memory_access, tables.memory_hash_embeddings
    joined = (
        (source if base is None else base)
        .outerjoin(access, and_(access.c.namespace == source.c.namespace, access.c.id == source.c.id))
        .outerjoin(hashes, and_(hashes.c.namespace == source.c.namespace, hashes.c.seq == source.c.seq))
    )
    return select(
        *(source.c[name] for name in _PLAIN),
        *(source.c[name] for name in _CONVERTED),
        cast(source.c.metadata, Text).label("metadata"),
        access.c.last_accessed,
        func.coalesce(access.c.access_count, literal_column("0")).label("access_count"),
        # Of length 1, as a record has it: the server comes to the same bits in a tenth of the time.
        cast(of_pgvector(tables, "l2_normalize", tables.vector(), hashes.c.embedding), ARRAY(REAL)).label(
            "embedding"
        ),
        _relations(tables, source).label("relations"),
    ).select_from(joined)


def _relations(tables: Tables, source: FromClause) -> ColumnElement[Any]:
    """Return the relations that start at a memory as the text of a JSON array, null where there are none."""
    relations = tables.memory_relations
    # Not jsonb, which takes half as long again to make, and is text in the end.
    item = func.json_build_array(
        relations.c.target_id,
        relations.c.relation_type,
        relations.c.confidence,
        relations.c.metadata,
        relations.c.label,
    )
    in_order = aggregate_order_by(
        item,
        relations.c.relation_type.collate("C"),
        relations.c.label.collate("C"),
        relations.c.target_id.collate("C"),
    )
    # A range of one id. For an equality the planner takes the average number of relations of a source: where a few hubs
    # have nearly all of them, it would read the whole table for each record.
    starts_here = relations.c.source_id.between(source.c.id, source.c.id)
    return (
        select(cast(func.json_agg(in_order), Text))
        .where(relations.c.namespace == source.c.namespace, starts_here)
        .scalar_subquery()
    )


def is_writable(tables: Tables) -> Select[Any]:
    """Return one row: whether the principal may write a memory."""
    return select(may_write(tables, text_parameter("namespace"), text_parameter("id")))


def get_records(tables: Tables) -> Select[Any]:
    """Select the records of some ids of a namespace, in no particular order."""
    return each_by_id(tables, select_records(tables))


def each_by_id(tables: Tables, rows: Select[Any]) -> Select[Any]:
    """Select of ``rows`` of memories those of some ``ids`` of a namespace, each looked up by itself."""
    memories = tables.memories
    asked = (
        func.unnest(texts_parameter("ids")).table_valued(column("id", Text), name="asked").render_derived()
    )
    each = (
        rows.where(memories.c.namespace == text_parameter("namespace"), memories.c.id == asked.c.id)
        .offset(literal_column("0"))
        .lateral("record")
    )
    return apart_from_planning(select(*each.c).select_from(asked.join(each, true())))


def get_record_by_content_key(tables: Tables) -> Select[Any]:
    """Select the record that holds the key of an owner's content."""
    memories = tables.memories
    return select_records(tables).where(
        memories.c.namespace == text_parameter("namespace"),
        memories.c.content_key == content_key(text_parameter("owner"), text_parameter("content")),
        memories.c.status == literal_column("'active'"),
    )


#: Members by value: calling the enum takes ten times as long.
_TYPES = {member.value: member for member in MemoryType}
_STATUSES = {member.value: member for member in MemoryStatus}


def record_from_row(row: Row) -> MemoryRecord:
    """Return the record a row of `select_records` holds."""
    embedding = row["embedding"]
    return record_from_values(
        row["id"],
        row["content"],
        row["namespace"],
        _TYPES[row["memory_type"]],
        _STATUSES[row["status"]],
        row["created_at"],
        row["updated_at"],
        row["last_accessed"],
        row["access_count"],
        None if embedding is None else tuple(embedding),
        tuple(row["tags"]),
        row["importance"],
        row["confidence"],
        decode_metadata(row["metadata"]),
        decode_relations(row["relations"]),
        permissions_of(row["owner"], tuple(row["readers"]), tuple(row["writers"])),
        row["thread_id"],
        row["session_id"],
        row["expires_at"],
        row["supersedes"],
        row["version"],
    )
