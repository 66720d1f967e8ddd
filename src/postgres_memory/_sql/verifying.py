"""Statements that recompute hash embeddings beside the stored ones, in batches along (namespace, seq)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL

from .names import qualified, quote
from .parameters import number_parameter, text_parameter
from .schema import Tables

#: A batch holds at most this many bytes of contents, and one memory at least.
_BATCH_BYTES = 8 * 1024 * 1024


def probe_md5(_: Tables) -> Select[Any]:
    """Ask whether the server computes MD5 at all."""
    return select(func.pg_catalog.md5(literal_column("''")))


def count_memories(tables: Tables) -> Select[Any]:
    """Count the memories of a namespace, or of all."""
    return select(func.count()).select_from(tables.memories).where(_of_namespace(tables))


def hashes_with_sql(tables: Tables, most_bytes: int = _BATCH_BYTES) -> Select[Any]:
    """Return stored counts and what the server computes from the content."""
    return _hashes(tables, most_bytes, sql=True)


def hashes_from_python_only(tables: Tables, most_bytes: int = _BATCH_BYTES) -> Select[Any]:
    """Return stored counts alone, for a server that refuses MD5."""
    return _hashes(tables, most_bytes, sql=False)


def _of_namespace(tables: Tables) -> ColumnElement[bool]:
    namespace = text_parameter("namespace")
    return or_(namespace.is_(None), tables.memories.c.namespace == namespace)


def _hashes(tables: Tables, most_bytes: int, *, sql: bool) -> Select[Any]:
    memories, hashes = tables.memories, tables.memory_hash_embeddings
    order = (memories.c.namespace, memories.c.seq)
    size = func.octet_length(memories.c.content)
    batch = (
        select(
            *order,
            memories.c.id,
            memories.c.content,
            (func.sum(size).over(order_by=order) - size).label("bytes_before"),
        )
        .where(
            _of_namespace(tables),
            tuple_(*order) > tuple_(text_parameter("after_namespace"), number_parameter("after_seq")),
        )
        .order_by(*order)
        .limit(number_parameter("batch_size"))
        .subquery("batch")
    )
    own = and_(hashes.c.namespace == batch.c.namespace, hashes.c.seq == batch.c.seq)
    floats = ARRAY(REAL)
    columns = [
        batch.c.namespace,
        batch.c.seq,
        batch.c.id,
        batch.c.content,
        cast(hashes.c.embedding, floats).label("stored"),
    ]
    small = batch.c.bytes_before <= literal_column(str(most_bytes))
    if not sql:
        columns += [null().label("sql_counts"), null().label("sql_embedding")]
        query = select(*columns).select_from(batch.outerjoin(hashes, own))
        return query.where(small).order_by(batch.c.namespace, batch.c.seq)
    counted = select(_hash_counts(tables).label("counts")).offset(literal_column("0")).lateral("counted")
    normalized: ColumnElement[Any] = literal_column(
        f"{quote(tables.extension_schema)}.l2_normalize(counted.counts)"
    )
    columns += [
        cast(counted.c.counts, floats).label("sql_counts"),
        cast(normalized, floats).label("sql_embedding"),
    ]
    query = select(*columns).select_from(batch.outerjoin(hashes, own).join(counted, true()))
    return query.where(small).order_by(batch.c.namespace, batch.c.seq)


def _hash_counts(tables: Tables) -> ColumnElement[Any]:
    schema = qualified(tables.schema, "hash_counts")
    return literal_column(f"{schema}(batch.content)", tables.vector())
