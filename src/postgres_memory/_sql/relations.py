"""Statements on the join table: storing, removing and reading relations, and pairs that contradict each other."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Select,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from .changes import of_relations, told
from .parameters import float_parameter, json_parameter, number_parameter, text_parameter, texts_parameter
from .predicates import Shape, Visibility, predicate, visible
from .records import select_records
from .schema import Tables
from .write_tokens import marked

_KEY = ("source_id", "relation_type", "label", "target_id")


def store_relation(tables: Tables) -> Select[Any]:
    """Insert a relation, or give the one of the same key a new confidence and metadata.

    Returns one row: the ids of its ends that are ``missing``, null if none is; then nothing was written.
    """
    relations, memories = tables.memory_relations, tables.memories
    ends = (text_parameter(name) for name in ("source_id", "target_id"))
    # Each by itself: of an array the server does not know how long it is, and would plan anew for each that is given.
    missing = union_all(
        *(
            select(cast(end, Text).label("id")).where(
                ~select(literal_column("1"))
                .where(memories.c.namespace == text_parameter("namespace"), memories.c.id == end)
                .exists()
            )
            for end in ends
        )
    ).cte("missing")
    given: dict[str, ColumnElement[Any]] = {
        "namespace": text_parameter("namespace"),
        **{name: text_parameter(name) for name in _KEY},
        "confidence": float_parameter("confidence"),
        "metadata": json_parameter("metadata"),
    }
    row = select(*given.values()).where(~select(missing.c.id).exists())
    statement = insert(relations).from_select(list(given), row, include_defaults=False)
    stored = statement.on_conflict_do_update(
        index_elements=[relations.c[name] for name in ("namespace", *_KEY)],
        set_={name: statement.excluded[name] for name in ("confidence", "metadata")},
    )
    ids = select(func.array_agg(missing.c.id)).scalar_subquery()
    written = stored.returning(*(relations.c[name] for name in _KEY)).cte("stored")
    events = told(tables, of_relations(written, "related"))
    return select(ids.label("missing")).add_cte(written, marked(tables, written), *events)


def delete_relation(tables: Tables) -> Select[Any]:
    """Delete the relation of a key; return a row if it was there."""
    relations = tables.memory_relations
    deleted = (
        delete(relations)
        .where(
            relations.c.namespace == text_parameter("namespace"),
            *(relations.c[name] == text_parameter(name) for name in _KEY),
        )
        .returning(*(relations.c[name] for name in _KEY))
        .cte("deleted")
    )
    events = told(tables, of_relations(deleted, "unrelated"))
    return select(deleted.c.source_id).add_cte(marked(tables, deleted), *events)


def get_relations(tables: Tables) -> Select[Any]:
    """Select the relations at one memory of the types asked from either side, in no particular order.

    Returns no row where there is no such memory, and one of nulls where it has none of them.
    """
    memories = tables.memories
    legs = union_all(
        _at(tables, "source_id", "source_types", "true"),
        _at(tables, "target_id", "target_types", "false"),
    ).subquery("found")
    return (
        select(*(legs.c[name] for name in (*_KEY, "confidence", "metadata", "at_source")))
        .select_from(memories.outerjoin(legs, true()))
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("id"))
    )


def _at(tables: Tables, end: str, types: str, at_source: str) -> Select[Any]:
    relations = tables.memory_relations
    return select(
        *(relations.c[name] for name in (*_KEY, "confidence")),
        cast(relations.c.metadata, Text).label("metadata"),
        literal_column(at_source).label("at_source"),
    ).where(
        relations.c.namespace == text_parameter("namespace"),
        relations.c[end] == text_parameter("id"),
        relations.c.relation_type == func.any(texts_parameter(types)),
    )


def record_without_relations(tables: Tables, *conditions: ColumnElement[bool]) -> FromClause:
    """Return a lateral lookup of a record, with null in place of its relations.

    OFFSET 0 keeps it a lookup per row, however many the planner expects.
    """
    records = select_records(tables)
    kept = [column for column in records.selected_columns if column.key != "relations"]
    return (
        records.with_only_columns(*kept, literal_column("NULL::text").label("relations"))
        .where(*conditions)
        .offset(literal_column("0"))
        .lateral("record")
    )


def get_contradictions(tables: Tables, visibility: Visibility, shape: Shape) -> Select[Any]:
    """Select the memories of pairs that match and that CONTRADICTS joins, each once, as a record without its relations.

    The first memory of a pair tells of it, as JSON text: an array of [number of the pair, the other one's id,
    confidence, [source, target, label, confidence, metadata] of each relation].
    """
    pairs = _pairs(tables, visibility, shape)
    memories = tables.memories
    told = (
        select(
            pairs.c.first,
            func.jsonb_agg(
                func.jsonb_build_array(
                    pairs.c.number, pairs.c.second_id, pairs.c.pair_confidence, pairs.c.joined_by
                )
            ).label("pairs"),
        )
        .group_by(pairs.c.first)
        .subquery("told")
    )
    members = select(pairs.c.first.label("seq")).union(select(pairs.c.second)).subquery("members")
    record = record_without_relations(
        tables, memories.c.namespace == text_parameter("namespace"), memories.c.seq == members.c.seq
    )
    return select(*record.c, cast(told.c.pairs, Text).label("pairs")).select_from(
        members.join(record, true()).outerjoin(told, told.c.first == members.c.seq)
    )


def _pairs(tables: Tables, visibility: Visibility, shape: Shape) -> CTE:
    """Number the pairs, most confident first, then by the order in which their memories were stored."""
    relations = tables.memory_relations
    source, target = tables.memories.alias("source"), tables.memories.alias("target")

    def joined(memories: FromClause, end: str) -> ColumnElement[bool]:
        return and_(memories.c.namespace == relations.c.namespace, memories.c.id == relations.c[end])

    first = func.least(source.c.seq, target.c.seq)
    second = func.greatest(source.c.seq, target.c.seq)
    second_id = case((source.c.seq > target.c.seq, source.c.id), else_=target.c.id)
    confidence = func.max(relations.c.confidence, type_=Double)
    in_rank = (confidence.desc(), first, second)
    item = func.jsonb_build_array(
        relations.c.source_id,
        relations.c.target_id,
        relations.c.label,
        relations.c.confidence,
        relations.c.metadata,
    )
    in_order = aggregate_order_by(item, relations.c.label.collate("C"), relations.c.source_id.collate("C"))
    return (
        select(
            first.label("first"),
            second.label("second"),
            func.min(second_id).label("second_id"),
            confidence.label("pair_confidence"),
            func.jsonb_agg(in_order).label("joined_by"),
            func.row_number().over(order_by=in_rank).label("number"),
        )
        .select_from(
            relations.join(source, joined(source, "source_id")).join(target, joined(target, "target_id"))
        )
        .where(
            relations.c.namespace == text_parameter("namespace"),
            # Written out, so that the partial index serves.
            relations.c.relation_type == literal_column("'contradicts'"),
            *(visible(end, visibility) for end in (source, target)),
            *(predicate(end, shape) for end in (source, target)),
        )
        .group_by(first, second)
        .order_by(*in_rank)
        .limit(number_parameter("limit"))
        .cte("pairs")
    )
