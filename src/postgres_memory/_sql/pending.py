"""Statements that find the memories without an embedding in a space, and embed them later."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    ColumnElement,
    LargeBinary,
    Select,
    and_,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert

from .embeddings import COLUMNS, CONTENT, given_space
from .parameters import (
    bytes_array_parameter,
    number_parameter,
    numbers_parameter,
    text_parameter,
)
from .repeating import repeatable
from .schema import Tables


def find_pending(tables: Tables) -> Select[Any]:
    """Return up to ``limit`` memories behind ``after`` that have no embedding in ``space``, in insertion order."""
    memories, embeddings = tables.memories, tables.memory_embeddings
    embedded: Select[Any] = select(literal_column("1")).where(
        embeddings.c.namespace == memories.c.namespace,
        embeddings.c.seq == memories.c.seq,
        # Said of both, so that a merge of the two begins there.
        embeddings.c.seq > number_parameter("after"),
        embeddings.c.space == text_parameter("space"),
        embeddings.c.field == CONTENT,
        embeddings.c.embedding.is_not(None),
    )
    return (
        select(memories.c.seq, memories.c.id, memories.c.content)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.seq > number_parameter("after"),
            ~embedded.exists(),
        )
        .order_by(memories.c.seq)
        .limit(number_parameter("limit"))
    )


def list_spaces(tables: Tables) -> Select[Any]:
    """Return the spaces of a namespace, oldest first, each with how many memories have an embedding and have none."""
    spaces, memories, embeddings = tables.embedding_spaces, tables.memories, tables.memory_embeddings
    every: ColumnElement[int] = (
        select(func.count())
        .select_from(memories)
        .where(memories.c.namespace == text_parameter("namespace"))
        .scalar_subquery()
    )
    counts = (
        select(embeddings.c.space, func.count(embeddings.c.embedding).label("embedded"))
        .where(embeddings.c.namespace == text_parameter("namespace"), embeddings.c.field == CONTENT)
        .group_by(embeddings.c.space)
        .subquery("counts")
    )
    embedded = func.coalesce(counts.c.embedded, literal_column("0"))
    names = ("name", "dimensions", "distance", "status", "created_at")
    return (
        select(
            *(spaces.c[name] for name in names),
            embedded.label("embedded"),
            (every - embedded).label("pending"),
        )
        .select_from(spaces.outerjoin(counts, counts.c.space == spaces.c.name))
        .where(spaces.c.namespace == text_parameter("namespace"))
        .order_by(spaces.c.created_at, spaces.c.name.collate("C"))
    )


@repeatable
def embed_memories(tables: Tables) -> Select[Any]:
    """Write the vectors of memories that have none in ``space``; return how many memories and spaces there still were.

    ``vectors`` holds them one behind the other, each of ``dimensions`` numbers. A memory whose content is not what was
    embedded is left out. It is locked while its vector is written: who changes it afterwards finds the vector, or puts
    a NULL over it.
    """
    memories, table = tables.memories, tables.memory_embeddings
    given = (
        func.unnest(numbers_parameter("seqs"), bytes_array_parameter("digests"))
        .table_valued(
            column("seq", BigInteger),
            column("digest", LargeBinary),
            with_ordinality="number",
            name="given",
        )
        .render_derived()
    )
    digest = func.sha256(func.convert_to(memories.c.content, literal_column("'UTF8'")))
    held = (
        select(memories.c.namespace, memories.c.seq, given.c.number)
        .select_from(memories.join(given, memories.c.seq == given.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"), digest == given.c.digest)
        .order_by(memories.c.seq)
        .with_for_update(read=True, of=memories)
        .cte("held")
    )
    space = given_space(tables)
    # A slice of a parameter is taken without reading what comes before it.
    all_of_them = select(bindparam("vectors", type_=ARRAY(REAL())).label("numbers")).cte("all_of_them")
    length, one = number_parameter("dimensions"), literal_column("1", BigInteger)
    end = held.c.number * length
    vector = all_of_them.c.numbers[end - length + one : end]
    rows = select(
        held.c.namespace, space.c.name, CONTENT, held.c.seq, cast(vector, tables.vector())
    ).select_from(held.join(space, true()).join(all_of_them, true()))
    statement = insert(table).from_select(list(COLUMNS), rows, include_defaults=False)
    embedded = (
        statement.on_conflict_do_update(
            index_elements=[table.c[name] for name in ("namespace", "seq", "space", "field")],
            set_={"embedding": statement.excluded.embedding},
            where=table.c.embedding.is_(None),
        )
        .returning(table.c.seq)
        .cte("embedded")
    )
    spaces = select(func.count()).select_from(space).scalar_subquery()
    return select(func.count().label("embedded"), spaces.label("spaces")).select_from(embedded)


def lock_spaces(tables: Tables) -> Select[Any]:
    """Return the spaces of a namespace, kept from being changed by others; writers of vectors go on."""
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.name, spaces.c.status)
        .where(spaces.c.namespace == text_parameter("namespace"))
        .order_by(spaces.c.name.collate("C"))
        .with_for_update(key_share=True)
    )


def count_pending(tables: Tables) -> Select[Any]:
    """Count the memories that have no embedding in ``space``."""
    memories, embeddings = tables.memories, tables.memory_embeddings
    every = (
        select(func.count())
        .select_from(memories)
        .where(memories.c.namespace == text_parameter("namespace"))
        .scalar_subquery()
    )
    embedded = (
        select(func.count(embeddings.c.embedding))
        .where(
            and_(
                embeddings.c.namespace == text_parameter("namespace"),
                embeddings.c.space == text_parameter("space"),
                embeddings.c.field == CONTENT,
            )
        )
        .scalar_subquery()
    )
    return select((every - embedded).label("pending"))
