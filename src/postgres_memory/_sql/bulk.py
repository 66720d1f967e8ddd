"""Statements of bulk loading. The rows themselves go by COPY, or as one JSON array where conflicts are to be met."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
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
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REGCLASS, insert
from sqlalchemy.types import TypeEngine

from .keys import content_key
from .names import qualified, quote_text
from .parameters import boolean_parameter, json_parameter, number_parameter, text_parameter, texts_parameter
from .schema import Tables

_COLUMNS: dict[str, TypeEngine[Any]] = {
    "id": Text(),
    "content": Text(),
    "metadata": JSONB(),
    "memory_type": Text(),
    "status": Text(),
    "created_at": DateTime(timezone=True),
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
_KEPT = {"id", "created_at", "status"}


def allocate(tables: Tables) -> Select[Any]:
    """Take ``count`` numbers of the insertion order, and the database's time."""
    name: ColumnElement[str] = literal_column(quote_text(qualified(tables.schema, "memories")))
    sequence = cast(func.pg_get_serial_sequence(name, literal_column("'seq'")), REGCLASS)
    series = func.generate_series(literal_column("1"), number_parameter("count")).table_valued("n")
    return select(
        func.array_agg(func.nextval(sequence)).label("seqs"), func.statement_timestamp().label("now")
    ).select_from(series)


def existing_ids(tables: Tables) -> Select[Any]:
    """Return which of some ids exist."""
    memories = tables.memories
    return select(memories.c.id).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == func.any(texts_parameter("ids"))
    )


def insert_rows(tables: Tables, update_existing: bool) -> Select[Any]:
    """Insert memories given as JSON, past or over what is there; return the ids written."""
    given = _given()
    stored = _stored(tables, given, update_existing)
    return select(stored.c.id).add_cte(_hashed(tables, stored, given, update_existing))


def _given() -> TableValuedAlias:
    columns: list[ColumnElement[Any]] = [column("position", Integer), column("counts", ARRAY(Integer))]
    columns += [column(name, kind) for name, kind in _COLUMNS.items()]
    rows = func.jsonb_to_recordset(json_parameter("rows")).table_valued(*columns, name="given")
    return rows.render_derived(with_types=True)


def _stored(tables: Tables, given: TableValuedAlias, update_existing: bool) -> CTE:
    memories = tables.memories
    now = func.statement_timestamp()
    values: dict[str, Any] = {name: given.c[name] for name in _COLUMNS}
    values |= {"namespace": text_parameter("namespace"), "updated_at": now}
    values["created_at"] = func.coalesce(given.c.created_at, now)
    key = content_key(given.c.owner, given.c.content)
    values["content_key"] = case((boolean_parameter("dedupe"), key))
    rows = select(*values.values()).select_from(given).order_by(given.c.position)
    statement = insert(memories).from_select(list(values), rows, include_defaults=False)
    if update_existing:
        own, new = memories.c.content_key, statement.excluded.content_key
        renewed = content_key(statement.excluded.owner, statement.excluded.content)
        changed: dict[str, Any] = {name: statement.excluded[name] for name in _COLUMNS if name not in _KEPT}
        changed["updated_at"] = statement.excluded.updated_at
        changed["version"] = memories.c.version + literal_column("1")
        changed["content_key"] = case((new.is_not(None), new), (own.is_not(None), renewed))
        statement = statement.on_conflict_do_update(
            index_elements=[memories.c.namespace, memories.c.id], set_=changed
        )
    else:
        statement = statement.on_conflict_do_nothing()
    names = ("namespace", "id", "seq", "status", "expires_at")
    return statement.returning(*(memories.c[name] for name in names)).cte("stored")


def _hashed(tables: Tables, stored: CTE, given: TableValuedAlias, update_existing: bool) -> CTE:
    hashes = tables.memory_hash_embeddings
    names = ["namespace", "seq", "status", "expires_at", "embedding"]
    rows = select(
        *(stored.c[name] for name in names[:-1]), cast(given.c.counts, tables.vector())
    ).select_from(stored.join(given, stored.c.id == given.c.id))
    statement = insert(hashes).from_select(names, rows, include_defaults=False)
    if update_existing:
        statement = statement.on_conflict_do_update(
            index_elements=[hashes.c.namespace, hashes.c.seq],
            set_={name: statement.excluded[name] for name in ("status", "expires_at", "embedding")},
        )
    return statement.returning(hashes.c.seq).cte("hashed")


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


def missing_targets(tables: Tables) -> Select[Any]:
    """Return the targets among relations, given as JSON, that do not exist."""
    given, memories = _given_edges(), tables.memories
    exists: Select[Any] = select(literal_column("1")).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == given.c.target_id
    )
    return select(given.c.target_id).distinct().where(~exists.exists())


def insert_relations(tables: Tables) -> UpdateBase:
    """Insert relations given as JSON, over those there are."""
    relations, given = tables.memory_relations, _given_edges()
    names = ["source_id", "relation_type", "label", "target_id", "confidence", "metadata"]
    rows = select(text_parameter("namespace"), *(given.c[name] for name in names))
    statement = insert(relations).from_select(["namespace", *names], rows, include_defaults=False)
    key = ("namespace", "source_id", "relation_type", "label", "target_id")
    return statement.on_conflict_do_update(
        index_elements=[relations.c[name] for name in key],
        set_={name: statement.excluded[name] for name in ("confidence", "metadata")},
    )
