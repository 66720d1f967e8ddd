"""Which memories are nearest to the query's vector: by an index where many match, and exactly where few do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    SelectBase,
    Text,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from ..embedding.fields import EmbeddedFields
from ..embedding.protocol import Distance
from .distances import constant, distance_to_query, is_embedded_field, of_space, vector_of_query
from .names import quote_text
from .parameters import number_parameter, text_parameter
from .schema import Tables
from .scoring import RecallShape
from .space_index import SpaceIndexShape, indexed_distance, indexed_rows
from .spaces import readable_space
from .word_hits import Matching, matching_memory, number

#: A namespace of as many embeddings is read through, exactly, also where there is an index.
_READ_THROUGH = 10_000
#: How many entries of an index are looked at until there are enough that match.
_MOST_SCANNED = 100_000
#: So many vectors are asked of an index for each memory where a memory may have several.
_OF_A_MEMORY = 8
#: How often work_mem a scan may take; so many entries need about three times the 4 MB of the default.
_SCAN_MEMORY = 8


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest ``memories``, ``seq`` and ``distance``, and ``why`` they were looked for as they were, in a word."""

    memories: CTE
    why: ColumnElement[str]


def nearest(
    tables: Tables, shape: RecallShape, distance: Distance, matching: Matching | None = None
) -> Nearest:
    """Return the memories that match and are nearest by one of their vectors, in the space to be read.

    Exactly, unless there is an index and not just a few of the namespace's memories are ``matching``: then the index is
    scanned on and on until there are enough that match. If it ends before, because what matches is far away or others'
    vectors are nearer, or if most of what it gives are equal vectors, which hide each other and what is beside them,
    they are looked for exactly after all.
    """
    index, few = shape.index, None if matching is None else matching.few
    exact = _nearest_exactly(tables, distance, shape)
    if index is None:
        return Nearest(
            _materialized(_or_of_few(tables, exact, shape, distance, matching), "nearest"), constant("alone")
        )
    indexed, short, equal = _by_index(tables, shape, distance, index, few)
    each = exact.subquery("each")
    again = or_(short, equal)
    both: SelectBase = union_all(
        _or_of_few(tables, each.select().where(again), shape, distance, matching),
        select(indexed.c.seq, indexed.c.distance).where(~again),
    )
    return Nearest(_materialized(both, "nearest"), _reason(few, short, equal))


def nearest_at_once(
    tables: Tables, shape: RecallShape, distance: Distance, matching: Matching | None
) -> Nearest:
    """Return what `nearest` does, but for where it looks again: ``why`` is ``short`` or ``equal`` there."""
    if shape.index is None:
        return nearest(tables, shape, distance, matching)
    few = None if matching is None else matching.few
    indexed, short, equal = _by_index(tables, shape, distance, shape.index, few)
    found = _or_of_few(tables, indexed.select(), shape, distance, matching)
    return Nearest(found.cte("nearest"), _reason(few, short, equal))


def _reason(
    few: ColumnElement[bool] | None, short: ColumnElement[bool], equal: ColumnElement[bool]
) -> ColumnElement[str]:
    reasons = [(short, constant("short")), (equal, constant("equal"))]
    return case(*([] if few is None else [(few, constant("few"))]), *reasons, else_=constant("index"))


def _by_index(
    tables: Tables,
    shape: RecallShape,
    distance: Distance,
    index: SpaceIndexShape,
    few: ColumnElement[bool] | None,
) -> tuple[CTE, ColumnElement[bool], ColumnElement[bool]]:
    """Return what the index gives unless few match, and whether that is too ``short``, or most of it ``equal``."""
    found = _nearest_by_index(tables, distance, shape, index).subquery("found_by_index").select()
    rows = _materialized(found if few is None else found.where(~few), "by_index")
    indexed = rows if shape.fields.are_usual else _of_memories(rows, index)
    counted = select(func.count()).select_from(indexed).scalar_subquery()
    distinct = func.count(rows.c.distance.distinct()) * number(2)
    judged = select((counted < _asked_of(index)).label("short"), (distinct < func.count()).label("equal"))
    given = _materialized(judged.select_from(rows), "given")
    return indexed, select(given.c.short).scalar_subquery(), select(given.c.equal).scalar_subquery()


def has_many(tables: Tables, fields: EmbeddedFields) -> Select[Any]:
    """Return one row: whether the namespace has more embeddings in the space than are read through.

    Those included that are to be made yet: the key tells that by itself. In its order no more of it is read; a generic
    plan would read all of the namespace's.
    """
    vectors = tables.memory_embeddings.alias("counted")
    mine = select(vectors.c.seq).where(of_space(tables, vectors, fields, made=False)).order_by(vectors.c.seq)
    return select(mine.offset(number(_READ_THROUGH)).limit(number(1)).exists().label("many"))


def _or_of_few(
    tables: Tables, otherwise: Select[Any], shape: RecallShape, distance: Distance, matching: Matching | None
) -> Select[Any]:
    """Select the nearest of those that match where they are few, whose numbers are known, and ``otherwise`` these."""
    if matching is None:
        return otherwise
    vectors = tables.memory_embeddings.alias("of_few")
    # As an array, by which the key is read once, in its order; a join would look each up by itself.
    seqs = func.array(select(matching.places.c.seq).where(matching.few).scalar_subquery())
    of_few = _by_distance(tables, vectors, distance, shape, vectors.c.seq == seqs.any_()).subquery(
        "nearest_of_few"
    )
    others = otherwise.subquery("unless_few")
    return union_all(of_few.select(), others.select().where(~matching.few)).subquery("either").select()


def _materialized(rows: SelectBase, name: str) -> CTE:
    return rows.cte(name).prefix_with("MATERIALIZED")


def _asked_of(index: SpaceIndexShape) -> ColumnElement[int]:
    """Return how many are taken by the index. Of bits, four times as many: their vectors are compared afterwards."""
    return number_parameter("nearest") * number(4 if index.type == "bit" else 1)


def _of_memories(rows: CTE, index: SpaceIndexShape) -> CTE:
    """Return the memories that these vectors are of, each once, and not more than are wanted."""
    nearest_of_it = func.min(rows.c.distance)
    memories = select(rows.c.seq, nearest_of_it.label("distance")).group_by(rows.c.seq)
    first = memories.order_by(nearest_of_it, rows.c.seq).limit(_asked_of(index))
    return _materialized(first, "memories_by_index")


def _nearest_exactly(tables: Tables, distance: Distance, shape: RecallShape) -> Select[Any]:
    vectors = tables.memory_embeddings
    matches = matching_memory(tables, vectors.c.seq, shape.matching, "candidate")
    return _by_distance(tables, vectors, distance, shape, matches.exists())


def _by_distance(
    tables: Tables, vectors: FromClause, distance: Distance, shape: RecallShape, which: ColumnElement[bool]
) -> Select[Any]:
    """Select the nearest of these memories, each by one of its vectors, exactly."""
    away, several = distance_to_query(tables, vectors, distance), not shape.fields.are_usual
    if several:
        away = func.min(away)
    found = (
        select(vectors.c.seq, away.label("distance"))
        .where(of_space(tables, vectors, shape.fields), which)
        .order_by(away, vectors.c.seq)
        .limit(number_parameter("nearest"))
    )
    return found.group_by(vectors.c.seq) if several else found


def _nearest_by_index(
    tables: Tables, distance: Distance, shape: RecallShape, index: SpaceIndexShape
) -> Select[Any]:
    vectors = tables.memory_embeddings.alias("indexed")
    # A scalar subquery stays a condition on each row; EXISTS may become a join, which the index could not order.
    matches = matching_memory(tables, vectors.c.seq, shape.matching, "indexed_memory").scalar_subquery()
    several = 1 if shape.fields.are_usual else _OF_A_MEMORY
    wanted = func.least(
        func.greatest(_times(number_parameter("nearest"), several), number_parameter("ef_search")),
        number(1000),
    )
    settings = {
        "hnsw.iterative_scan": literal_column("'relaxed_order'"),
        "hnsw.max_scan_tuples": literal_column(f"'{_MOST_SCANNED}'"),
        "hnsw.scan_mem_multiplier": literal_column(f"'{_SCAN_MEMORY}'"),
        "hnsw.ef_search": cast(wanted, Text),
    }
    # For this transaction, that is, this statement, and in it: there is no further round trip.
    local = select(
        *(
            func.set_config(literal_column(f"'{name}'"), value, literal_column("true")).label(
                f"setting_{place}"
            )
            for place, (name, value) in enumerate(settings.items())
        )
    ).subquery("settings")
    query = select(vector_of_query(tables)).select_from(local).scalar_subquery()
    return (
        select(vectors.c.seq, distance_to_query(tables, vectors, distance).label("distance"))
        .where(
            indexed_rows(tables, vectors, index),
            vectors.c.namespace == text_parameter("namespace"),
            is_embedded_field(vectors, shape.fields),
            readable_space(tables) == literal_column(quote_text(index.space)),
            matches.is_(true()),
        )
        .order_by(indexed_distance(tables, vectors.c.embedding, query, index))
        .limit(_times(_asked_of(index), several))
    )


def _times(value: ColumnElement[int], factor: int) -> ColumnElement[int]:
    return value if factor == 1 else value * number(factor)
