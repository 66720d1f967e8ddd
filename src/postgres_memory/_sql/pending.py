"""Statements that find the memories without an embedding in a space, and embed them later."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    ColumnElement,
    FromClause,
    LargeBinary,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, array, insert
from sqlalchemy.sql.selectable import LateralFromClause

from ..embedding.fields import EmbeddedFields
from .embedded_fields import (
    FIELD_COLUMNS,
    digest_of,
    is_outdated,
    outdated_taken_away,
    present_texts,
    text_of_field,
    unless_the_same,
)
from .embeddings import CONTENT, given_space
from .parameters import (
    bytes_array_parameter,
    number_parameter,
    numbers_parameter,
    text_parameter,
    texts_parameter,
)
from .repeating import repeatable
from .schema import Tables


def find_pending(tables: Tables, fields: EmbeddedFields) -> Select[Any]:
    """Return up to ``limit`` memories behind ``after`` that lack an embedding in ``space``, in insertion order.

    Each comes with the ``fields`` it lacks and their ``texts``, and whether a vector of it is ``outdated``.
    """
    memories = tables.memories
    names: tuple[ColumnElement[Any], ...]
    if fields.are_usual:
        lacking = ~_embedded_content(tables, memories).exists()
        names = (
            literal_column("ARRAY['']").label("fields"),
            array([memories.c.content]).label("texts"),
            false().label("outdated"),
        )
        base: FromClause = memories
    else:
        missing = _missing(tables, memories, fields, text_parameter("space"))
        base = memories.join(missing, true())
        outdated = _outdated(tables, memories)
        lacking = or_(missing.c.fields.is_not(None), outdated)
        names = (missing.c.fields, missing.c.texts, outdated.label("outdated"))
    return (
        select(memories.c.seq, memories.c.id, *names)
        .select_from(base)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.seq > number_parameter("after"),
            lacking,
        )
        .order_by(memories.c.seq)
        .limit(number_parameter("limit"))
    )


def _embedded_content(tables: Tables, memories: FromClause) -> Select[Any]:
    embeddings = tables.memory_embeddings
    return select(literal_column("1")).where(
        embeddings.c.namespace == memories.c.namespace,
        embeddings.c.seq == memories.c.seq,
        # Said of both, so that a merge of the two begins there.
        embeddings.c.seq > number_parameter("after"),
        embeddings.c.space == text_parameter("space"),
        embeddings.c.field == CONTENT,
        embeddings.c.embedding.is_not(None),
    )


def _missing(
    tables: Tables, memories: FromClause, fields: EmbeddedFields, space: ColumnElement[str]
) -> LateralFromClause:
    """Return the fields of a memory that have a text and no vector of it, null if there are none."""
    present = present_texts(memories, fields)
    columns = (func.array_agg(present.c.field).label("fields"), func.array_agg(present.c.text).label("texts"))
    return select(*columns).where(~_embedded_field(tables, memories, present, space)).lateral("missing")


def _embedded_field(
    tables: Tables, memories: FromClause, present: FromClause, space: ColumnElement[str]
) -> ColumnElement[bool]:
    embeddings = tables.memory_embeddings.alias("there")
    there: Select[Any] = select(literal_column("1")).where(
        embeddings.c.namespace == memories.c.namespace,
        embeddings.c.seq == memories.c.seq,
        embeddings.c.space == space,
        embeddings.c.field == present.c.field,
        embeddings.c.embedding.is_not(None),
        or_(present.c.field == CONTENT, embeddings.c.digest == digest_of(present.c.text)),
    )
    return there.correlate_except(embeddings).exists()


def _outdated(tables: Tables, memories: FromClause) -> ColumnElement[bool]:
    embeddings = tables.memory_embeddings.alias("written")
    left: Select[Any] = select(literal_column("1")).where(
        embeddings.c.namespace == memories.c.namespace,
        embeddings.c.seq == memories.c.seq,
        embeddings.c.space == text_parameter("space"),
        is_outdated(embeddings, memories.c.metadata),
    )
    return left.correlate_except(embeddings).exists()


def _incomplete(tables: Tables, fields: EmbeddedFields, space: ColumnElement[str]) -> ColumnElement[int]:
    """Count the memories of a namespace that lack an embedding of a field."""
    memories = tables.memories.alias("incomplete")
    missing = _missing(tables, memories, fields, space)
    return (
        select(func.count())
        .select_from(memories.join(missing, true()))
        .where(memories.c.namespace == text_parameter("namespace"), missing.c.fields.is_not(None))
        .scalar_subquery()
    )


def list_spaces(tables: Tables, fields: EmbeddedFields) -> Select[Any]:
    """Return the spaces of a namespace, oldest first, each with how many memories it has embedded, and how many not."""
    spaces, memories, embeddings = tables.embedding_spaces, tables.memories, tables.memory_embeddings
    every: ColumnElement[int] = (
        select(func.count())
        .select_from(memories)
        .where(memories.c.namespace == text_parameter("namespace"))
        .scalar_subquery()
    )
    base: FromClause = spaces
    if fields.are_usual:
        counts = (
            select(embeddings.c.space, func.count(embeddings.c.embedding).label("embedded"))
            .where(embeddings.c.namespace == text_parameter("namespace"), embeddings.c.field == CONTENT)
            .group_by(embeddings.c.space)
            .subquery("counts")
        )
        embedded: ColumnElement[int] = func.coalesce(counts.c.embedded, literal_column("0"))
        pending, base = every - embedded, spaces.outerjoin(counts, counts.c.space == spaces.c.name)
    else:
        lacking = select(_incomplete(tables, fields, spaces.c.name).label("pending")).lateral("lacking")
        pending, base = lacking.c.pending, spaces.join(lacking, true())
        embedded = every - pending
    names = ("name", "dimensions", "distance", "status", "created_at")
    return (
        select(
            *(spaces.c[name] for name in names),
            embedded.label("embedded"),
            pending.label("pending"),
        )
        .select_from(base)
        .where(spaces.c.namespace == text_parameter("namespace"))
        .order_by(spaces.c.created_at, spaces.c.name.collate("C"))
    )


@repeatable
def embed_memories(tables: Tables, fielded: bool) -> Select[Any]:
    """Write vectors of fields that have none in ``space``; return of which memories, and whether the space was there.

    ``vectors`` holds them one behind the other, each of ``dimensions`` numbers. A memory whose text is not what was
    embedded is left out. It is locked while its vector is written: who changes it afterwards finds the vector, or puts
    a NULL over it. Unless ``fielded``, all are of contents.
    """
    memories, table = tables.memories, tables.memory_embeddings
    given = (
        func.unnest(numbers_parameter("seqs"), texts_parameter("fields"), bytes_array_parameter("digests"))
        .table_valued(
            column("seq", BigInteger),
            column("field", Text),
            column("digest", LargeBinary),
            with_ordinality="number",
            name="given",
        )
        .render_derived()
    )
    text = text_of_field(memories, given.c.field) if fielded else memories.c.content
    held = (
        select(memories.c.namespace, memories.c.seq, given.c.field, given.c.digest, given.c.number)
        .select_from(memories.join(given, memories.c.seq == given.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"), digest_of(text) == given.c.digest)
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
        held.c.namespace,
        space.c.name,
        held.c.field,
        held.c.seq,
        cast(vector, tables.vector()),
        case((held.c.field != CONTENT, held.c.digest)),
    ).select_from(held.join(space, true()).join(all_of_them, true()))
    statement = insert(table).from_select(list(FIELD_COLUMNS), rows, include_defaults=False)
    embedded = unless_the_same(tables, statement).returning(table.c.seq).cte("embedded")
    spaces = select(func.count()).select_from(space).scalar_subquery()
    seqs = func.array(select(embedded.c.seq).scalar_subquery())
    return select(seqs.label("embedded"), spaces.label("spaces"))


@repeatable
def take_outdated_away(tables: Tables) -> Select[Any]:
    """Take the vectors of some memories' fields away that are of other texts than their metadata hold now."""
    memories = tables.memories
    held = (
        select(memories.c.namespace, memories.c.seq, memories.c.metadata)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.seq == func.any(numbers_parameter("seqs")),
        )
        .order_by(memories.c.seq)
        .with_for_update(read=True)
        .cte("held")
    )
    return select(func.count()).select_from(outdated_taken_away(tables, held))


def lock_spaces(tables: Tables) -> Select[Any]:
    """Return the spaces of a namespace, kept from being changed by others; writers of vectors go on."""
    spaces = tables.embedding_spaces
    return (
        select(spaces.c.name, spaces.c.status)
        .where(spaces.c.namespace == text_parameter("namespace"))
        .order_by(spaces.c.name.collate("C"))
        .with_for_update(key_share=True)
    )


def count_pending(tables: Tables, fields: EmbeddedFields) -> Select[Any]:
    """Count the memories that are not embedded in ``space``, or not all of their ``fields``."""
    if not fields.are_usual:
        return select(_incomplete(tables, fields, text_parameter("space")).label("pending"))
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
