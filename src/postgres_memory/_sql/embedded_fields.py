"""The parts of statements that embed strings of the metadata beside the content.

A row of `memory_embeddings` whose field is not the content's says by ``digest`` which text its vector is of. So every
statement that changes metadata, whatever fields its object embeds, can take away the vectors that are of other texts
now; and one that was written meanwhile, of the same text, is kept.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    REAL,
    ColumnElement,
    FromClause,
    Select,
    TableValuedAlias,
    Text,
    and_,
    case,
    cast,
    column,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, Insert, insert
from sqlalchemy.sql.selectable import LateralFromClause

from ..embedding.fields import EmbeddedFields, FieldPath
from .embeddings import COLUMNS, CONTENT, given_name, space_held
from .names import quote_text
from .parameters import json_parameter
from .schema import Tables

#: The columns of an embedding of a field.
FIELD_COLUMNS = (*COLUMNS, "digest")

_STRING: ColumnElement[str] = literal_column("'string'")


def embedded_fields(tables: Tables, changed: FromClause, given: ColumnElement[Any] | None = None) -> CTE:
    """Give the ``changed`` memories the vectors of fields that are ``given``, in the space these are for.

    They come as JSON, one array for a memory: name, digest and vector of each field; null for one that is gone.
    """
    space = space_held(tables).cte("space_of_fields")
    fields = _given(json_parameter("fields") if given is None else given, "given_field")
    rows = select(
        changed.c.namespace,
        space.c.name,
        fields.c.field,
        changed.c.seq,
        cast(fields.c.embedding, tables.vector()),
        func.decode(fields.c.digest, literal_column("'hex'")),
    ).select_from(changed.join(space, true()).join(fields, true()))
    table = tables.memory_embeddings
    statement = insert(table).from_select(list(FIELD_COLUMNS), rows, include_defaults=False)
    return unless_the_same(tables, statement).returning(table.c.seq).cte("fields_embedded")


def unless_the_same(tables: Tables, statement: Insert) -> Insert:
    """Return an insertion that replaces vectors of other texts, and leaves those of the same."""
    table = tables.memory_embeddings
    return statement.on_conflict_do_update(
        index_elements=[table.c[name] for name in ("namespace", "seq", "space", "field")],
        set_={name: statement.excluded[name] for name in ("embedding", "digest")},
        where=or_(table.c.embedding.is_(None), table.c.digest.is_distinct_from(statement.excluded.digest)),
    )


def outdated_taken_away(
    tables: Tables, changed: FromClause, given: ColumnElement[Any] | None = None, *, with_given: bool = False
) -> CTE:
    """Take from the ``changed`` memories the vectors of fields that are of another text than their ``metadata`` say.

    Those that are ``given`` in the same statement are left to `embedded_fields`.
    """
    table = tables.memory_embeddings
    statement = update(table).where(
        table.c.namespace == changed.c.namespace,
        table.c.seq == changed.c.seq,
        is_outdated(table, changed.c.metadata),
    )
    if with_given:
        fields = _given(json_parameter("fields") if given is None else given, "kept_field")
        among: Select[Any] = (
            select(literal_column("1")).select_from(fields).where(fields.c.field == table.c.field)
        )
        # Where there is no such space nothing is given.
        space = given_name(tables)
        statement = statement.where(
            ~and_(table.c.space.is_not_distinct_from(space), among.correlate(table, changed).exists())
        )
    return statement.values(embedding=null()).returning(table.c.seq).cte("outdated")


def is_outdated(embeddings: FromClause, metadata: ColumnElement[Any]) -> ColumnElement[bool]:
    """Say that an embedding is of a text that the metadata do not hold where its field says."""
    now = digest_of(_string_named(metadata, embeddings.c.field))
    return and_(
        embeddings.c.field != CONTENT,
        embeddings.c.embedding.is_not(None),
        embeddings.c.digest.is_distinct_from(now),
    )


def digest_of(text: ColumnElement[str]) -> ColumnElement[bytes]:
    """Return what tells texts apart."""
    return func.sha256(func.convert_to(text, literal_column("'UTF8'")))


def text_of_field(memories: FromClause, field: ColumnElement[str]) -> ColumnElement[str]:
    """Return the text that a field says, null if there is none."""
    named = _string_named(memories.c.metadata, field)
    return case((field == CONTENT, memories.c.content), else_=named)


def present_texts(memories: FromClause, fields: EmbeddedFields) -> LateralFromClause:
    """Return the fields of a memory that are to be embedded, each with its text; as `EmbeddedFields` does."""
    of_content: Select[Any] = select(CONTENT.label("field"), memories.c.content.label("text"))
    branches = [of_content.correlate(memories)] if fields.content else []
    branches += [_strings_at(memories, path, f"element_{number}") for number, path in enumerate(fields.paths)]
    return union_all(*branches).lateral("present")


def _strings_at(memories: FromClause, path: FieldPath, name: str) -> Select[Any]:
    found = _at(memories.c.metadata, path.before)
    label: ColumnElement[str] = literal_column(quote_text(path.head), Text)
    if not path.each:
        return _string(label, found).correlate(memories)
    is_array = func.jsonb_typeof(found) == literal_column("'array'")
    elements = (
        func.jsonb_array_elements(case((is_array, found)))
        .table_valued(column("value", JSONB), with_ordinality="number", name=name)
        .render_derived()
    )
    position = cast(elements.c.number - literal_column("1"), Text)
    tail: ColumnElement[str] = literal_column(quote_text(f"]{path.tail}"), Text)
    label = label.concat(literal_column("'['", Text)).concat(position).concat(tail)
    return _string(label, _at(elements.c.value, path.after)).select_from(elements).correlate(memories)


def _string(label: ColumnElement[str], value: ColumnElement[Any]) -> Select[Any]:
    text = value.op("#>>", return_type=Text())(literal_column("'{}'"))
    said = and_(func.jsonb_typeof(value) == _STRING, text != literal_column("''"))
    columns: list[ColumnElement[Any]] = [label.label("field"), text.label("text")]
    return select(*columns).where(said)


def _at(value: ColumnElement[Any], keys: tuple[str, ...]) -> ColumnElement[Any]:
    for key in keys:
        value = value.op("->", return_type=JSONB())(literal_column(quote_text(key), Text))
    return value


def _string_named(metadata: ColumnElement[Any], field: ColumnElement[str]) -> ColumnElement[str]:
    """Return the string that the name of a field leads to: ``metadata.facts[2].text`` by {facts,2,text}."""
    keys = func.regexp_replace(
        func.substr(field, literal_column("10")),
        literal_column(r"'\[(\d+)\]'"),
        literal_column(r"'.\1'"),
    )
    path = func.string_to_array(keys, literal_column("'.'"))
    is_string = func.jsonb_typeof(metadata.op("#>", return_type=JSONB())(path)) == _STRING
    return case((is_string, metadata.op("#>>", return_type=Text())(path)))


def _given(rows: ColumnElement[Any], name: str) -> TableValuedAlias:
    columns: list[ColumnElement[Any]] = [
        column("field", Text),
        column("digest", Text),
        column("embedding", ARRAY(REAL())),
    ]
    return func.jsonb_to_recordset(rows).table_valued(*columns, name=name).render_derived(with_types=True)
