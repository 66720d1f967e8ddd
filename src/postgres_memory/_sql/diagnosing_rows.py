"""What `doctor` and `stats` read of our tables: samples of a bounded number of rows, and the counts of `stats`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, cast, func, literal_column, or_, select, true

from .embeddings import CONTENT
from .parameters import float_parameter, number_parameter, text_parameter, texts_parameter, time_parameter
from .schema import Tables


def spaces_of(tables: Tables) -> Select[Any]:
    """Return up to ``limit`` spaces of ``namespaces``, with what an index must hold."""
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.namespace, spaces.c.name, spaces.c.dimensions, spaces.c.distance, spaces.c.status)
        .where(spaces.c.namespace == func.any(texts_parameter("namespaces")))
        .order_by(spaces.c.namespace, spaces.c.name)
        .limit(number_parameter("limit"))
    )


def names_of_spaces(tables: Tables) -> Select[Any]:
    """Return up to ``limit`` names of spaces of any namespace."""
    spaces = tables.embedding_spaces
    return select(spaces.c.name).distinct().order_by(spaces.c.name).limit(number_parameter("limit"))


def filling_spaces(tables: Tables) -> Select[Any]:
    """Return up to ``limit`` spaces of any namespace that are not filled yet."""
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.namespace, spaces.c.name)
        .where(spaces.c.status == literal_column("'filling'"))
        .order_by(spaces.c.namespace, spaces.c.name)
        .limit(number_parameter("limit"))
    )


def count_embeddings(tables: Tables) -> Select[Any]:
    """Count the embeddings of ``space`` in ``namespace``, as far as ``limit``: the key alone answers that."""
    table = tables.memory_embeddings
    some = (
        select(literal_column("1").label("one"))
        .where(table.c.namespace == text_parameter("namespace"), table.c.space == text_parameter("space"))
        .limit(number_parameter("limit"))
        .subquery("some")
    )
    return select(func.count().label("count")).select_from(some)


def count_memories(tables: Tables) -> Select[Any]:
    """Count the memories of ``namespace``, as far as ``limit``: a key alone answers that."""
    table = tables.memories
    some = (
        select(literal_column("1").label("one"))
        .where(table.c.namespace == text_parameter("namespace"))
        .limit(number_parameter("limit"))
        .subquery("some")
    )
    return select(func.count().label("count")).select_from(some)


def sample_pending(tables: Tables, newest: bool) -> Select[Any]:
    """Of the ``limit`` newest or oldest memories, count all, and those without an embedding in ``space``."""
    memories, embeddings = tables.memories, tables.memory_embeddings
    sample = (
        select(memories.c.seq)
        .where(memories.c.namespace == text_parameter("namespace"))
        .order_by(memories.c.seq.desc() if newest else memories.c.seq)
        .limit(number_parameter("limit"))
        .subquery("sample")
    )
    embedded: Select[Any] = select(literal_column("1")).where(
        embeddings.c.namespace == text_parameter("namespace"),
        embeddings.c.seq == sample.c.seq,
        embeddings.c.space == text_parameter("space"),
        embeddings.c.field == CONTENT,
        embeddings.c.embedding.is_not(None),
    )
    pending: ColumnElement[int] = func.count().filter(~embedded.exists())
    counts: list[ColumnElement[Any]] = [func.count().label("sampled"), pending.label("pending")]
    return select(*counts).select_from(sample)


def ends_of_namespace(tables: Tables) -> Select[Any]:
    """Return the first and the last number of the memories of a namespace, null where there are none."""
    memories = tables.memories
    ends: list[ColumnElement[Any]] = [
        func.min(memories.c.seq).label("first"),
        func.max(memories.c.seq).label("last"),
    ]
    return select(*ends).where(memories.c.namespace == text_parameter("namespace"))


def oldest_changes(tables: Tables) -> Select[Any]:
    """Return up to ``limit`` namespaces whose feed keeps events older than ``older_than`` seconds, and the days."""
    settings, changes = tables.namespace_settings, tables.changes
    first = (
        select(changes.c.created_at)
        .where(changes.c.namespace == settings.c.namespace)
        .order_by(changes.c.seq)
        .limit(literal_column("1"))
        .lateral("first")
    )
    age = func.extract("epoch", func.statement_timestamp() - first.c.created_at)
    return (
        select(settings.c.namespace, cast(age / literal_column("86400"), Integer).label("days"))
        .select_from(settings.join(first, true()))
        .where(settings.c.changes_from.is_not(None), age > float_parameter("older_than"))
        .order_by(first.c.created_at, settings.c.namespace)
        .limit(number_parameter("limit"))
    )


def count_expired(tables: Tables) -> Select[Any]:
    """Count the memories of a namespace that expired more than a day ago, as far as ``limit``."""
    memories = tables.memories
    some = (
        select(literal_column("1").label("one"))
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.expires_at < func.now() - literal_column("interval '1 day'"),
        )
        .limit(number_parameter("limit"))
        .subquery("some")
    )
    return select(func.count().label("count")).select_from(some)


def _of_namespace(tables: Tables) -> ColumnElement[bool]:
    namespace = text_parameter("namespace")
    return or_(namespace.is_(None), tables.memories.c.namespace == namespace)


def count_by_kind(tables: Tables) -> Select[Any]:
    """Count the memories of a namespace, or of all, by type and status."""
    memories = tables.memories
    kinds = (memories.c.namespace, memories.c.memory_type, memories.c.status)
    return (
        select(*kinds, func.count().label("memories"))
        .where(_of_namespace(tables))
        .group_by(*kinds)
        .order_by(memories.c.namespace.collate("C"), memories.c.memory_type, memories.c.status)
    )


def count_by_day(tables: Tables) -> Select[Any]:
    """Count the memories of a namespace, or of all, that were created ``since`` a time, by day (UTC)."""
    memories = tables.memories
    local = func.timezone(literal_column("'UTC'"), memories.c.created_at)
    return (
        select(
            func.to_char(local, literal_column("'YYYY-MM-DD'")).label("day"), func.count().label("memories")
        )
        .where(_of_namespace(tables), memories.c.created_at >= time_parameter("since"))
        .group_by(literal_column("1"))
    )
