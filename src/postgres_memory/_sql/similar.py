"""The vector leg: which memories are nearest to the query's vector, and how similar those found are in their threads.

What counts for a memory is the mean of its own similarity and, for less, that of its neighbours in the thread: a short
answer says little by itself. The vectors stored are those of single memories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    REAL,
    ColumnElement,
    Double,
    FromClause,
    Select,
    SelectBase,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import BigInteger

from ..embedding.fields import EmbeddedFields
from ..embedding.protocol import Distance
from .embeddings import CONTENT
from .names import quote_text
from .parameters import number_parameter, once, text_parameter
from .schema import Tables
from .scoring import RecallShape, of_rank
from .space_index import SpaceIndexShape, exact_distance, indexed_distance, indexed_rows
from .spaces import readable_space
from .word_hits import Matching, divided, matching_memory, number, seen

#: How much the similarity of a neighbour counts, by how far away it is.
_SHARES = {distance: 1 / (1 + abs(distance)) for distance in range(-4, 5)}

#: What does not fit float4 comes as infinity, of which no mean can be taken.
_FARTHEST: ColumnElement[float] = literal_column("1e38::double precision", Double)
#: A namespace of as many embeddings is read through, exactly, also where there is an index.
_READ_THROUGH = 10_000
#: How many entries of an index are looked at until there are enough that match.
_MOST_SCANNED = 100_000
#: So many vectors are asked of an index for each memory where a memory may have several.
_OF_A_MEMORY = 8
#: How often work_mem a scan may take; so many entries need about three times the 4 MB of the default.
_SCAN_MEMORY = 8


def _query(tables: Tables) -> ColumnElement[Any]:
    return cast(bindparam("query_vector", type_=ARRAY(REAL())), tables.vector())


def _distance(tables: Tables, vectors: FromClause, distance: Distance) -> ColumnElement[float]:
    """Return pgvector's distance, finite; a zero vector has none by cosine, and is as far as can be."""
    found = exact_distance(tables, vectors.c.embedding, once(_query(tables)), distance)
    known = func.coalesce(func.nullif(found, literal_column("'NaN'::double precision")), number(1))
    return func.least(func.greatest(known, -_FARTHEST), _FARTHEST)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The numbers of the nearest memories, and ``why`` they were looked for as they were, in a word."""

    seqs: CTE
    why: ColumnElement[str]


def nearest(
    tables: Tables, shape: RecallShape, distance: Distance, matching: Matching | None = None
) -> Nearest:
    """Return the numbers of the memories that match and are nearest by one of their vectors, in the space to be read.

    Exactly, unless there is an index, the namespace has many embeddings and not just a few of its memories are
    ``matching``: then the index is scanned on and on until there are enough that match. If it ends before, because what
    matches is far away or others' vectors are nearer, or if most of what it gives are equal vectors, which hide each
    other and what is beside them, they are looked for exactly after all.
    """
    index, few = shape.index, None if matching is None else matching.few
    exact = _nearest_exactly(tables, distance, shape)
    if index is None:
        return Nearest(
            _materialized(_or_of_few(tables, exact, shape, distance, matching), "nearest"), _constant("alone")
        )
    many = _are_many(tables, shape)
    # Where few match, nothing is counted.
    by_index = many if few is None else and_(~few, many)
    # Materialized, since what there is decides whether the exact leg runs, too.
    found = _nearest_by_index(tables, distance, shape, index).subquery("found_by_index")
    rows = _materialized(select(found.c.seq, found.c.distance).where(by_index), "by_index")
    indexed = rows if shape.fields.are_usual else _of_memories(rows, index)
    given = func.count()
    short = select(given < _by_index(index)).select_from(indexed).scalar_subquery()
    equal = select(func.count(rows.c.distance.distinct()) * number(2) < given).scalar_subquery()
    each = exact.subquery("each")
    again = or_(short, equal)
    both = union_all(
        _or_of_few(tables, select(each.c.seq).where(again), shape, distance, matching),
        select(indexed.c.seq).where(~again),
    )
    reasons = [(~many, _constant("small")), (short, _constant("short")), (equal, _constant("equal"))]
    if few is not None:
        reasons.insert(0, (few, _constant("few")))
    return Nearest(_materialized(both, "nearest"), case(*reasons, else_=_constant("index")))


def _are_many(tables: Tables, shape: RecallShape) -> ColumnElement[bool]:
    """Say whether the namespace has more embeddings than are read through, those included that are to be made yet.

    The key tells that by itself. In its order no more of it is read; a generic plan would read all of the namespace's.
    """
    vectors = tables.memory_embeddings.alias("counted")
    mine = (
        select(vectors.c.seq)
        .where(_of_space(tables, vectors, shape.fields, made=False))
        .order_by(vectors.c.seq)
    )
    # Looked at once, though asked for twice.
    one_more = _materialized(mine.offset(number(_READ_THROUGH)).limit(number(1)), "one_more")
    return select(one_more.c.seq).exists()


def _or_of_few(
    tables: Tables, otherwise: Select[Any], shape: RecallShape, distance: Distance, matching: Matching | None
) -> Select[Any]:
    """Select the nearest of those that match where they are few, whose numbers are known, and ``otherwise`` these."""
    if matching is None:
        return otherwise
    vectors = tables.memory_embeddings.alias("of_few")
    away = _distance(tables, vectors, distance)
    # OFFSET keeps this a lookup of each.
    each = (
        select((away if shape.fields.are_usual else func.min(away)).label("distance"))
        .where(_of_space(tables, vectors, shape.fields), vectors.c.seq == matching.places.c.seq)
        .offset(number(0))
        .lateral("each_of_few")
    )
    of_few = (
        select(matching.places.c.seq)
        .select_from(matching.places.join(each, true()))
        .where(matching.few, each.c.distance.is_not(None))
        .order_by(each.c.distance, matching.places.c.seq)
        .limit(number_parameter("nearest"))
        .subquery("nearest_of_few")
    )
    others = otherwise.subquery("unless_few")
    return (
        union_all(select(of_few.c.seq), select(others.c.seq).where(~matching.few)).subquery("either").select()
    )


def _constant(text: str) -> ColumnElement[str]:
    return literal_column(quote_text(text), Text)


def _materialized(rows: SelectBase, name: str) -> CTE:
    return rows.cte(name).prefix_with("MATERIALIZED")


def _by_index(index: SpaceIndexShape) -> ColumnElement[int]:
    """Return how many are taken by the index. Of bits, four times as many: their vectors are compared afterwards."""
    return number_parameter("nearest") * number(4 if index.type == "bit" else 1)


def _of_memories(rows: CTE, index: SpaceIndexShape) -> CTE:
    """Return the memories that these vectors are of, each once, and not more than are wanted."""
    nearest_of_it = func.min(rows.c.distance)
    memories = select(rows.c.seq, nearest_of_it.label("distance")).group_by(rows.c.seq)
    first = memories.order_by(nearest_of_it, rows.c.seq).limit(_by_index(index))
    return _materialized(first, "memories_by_index")


def _nearest_exactly(tables: Tables, distance: Distance, shape: RecallShape) -> Select[Any]:
    vectors = tables.memory_embeddings
    matches = matching_memory(tables, vectors.c.seq, shape.matching, "candidate")
    away = _distance(tables, vectors, distance)
    found = select(vectors.c.seq).where(_of_space(tables, vectors, shape.fields), matches.exists())
    if not shape.fields.are_usual:
        found, away = found.group_by(vectors.c.seq), func.min(away)
    return found.order_by(away, vectors.c.seq).limit(number_parameter("nearest"))


def _nearest_by_index(
    tables: Tables, distance: Distance, shape: RecallShape, index: SpaceIndexShape
) -> Select[Any]:
    vectors = tables.memory_embeddings.alias("indexed")
    # A scalar subquery stays a condition on each row; EXISTS may become a join, which the index could not order.
    matches = matching_memory(tables, vectors.c.seq, shape.matching, "indexed_memory").scalar_subquery()
    several = 1 if shape.fields.are_usual else _OF_A_MEMORY
    wanted = func.least(
        func.greatest(_times(number_parameter("nearest"), several), number(100)), number(1000)
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
    query = select(_query(tables)).select_from(local).scalar_subquery()
    return (
        select(vectors.c.seq, _distance(tables, vectors, distance).label("distance"))
        .where(
            indexed_rows(tables, vectors, index),
            vectors.c.namespace == text_parameter("namespace"),
            _is_embedded_field(vectors, shape.fields),
            readable_space(tables) == literal_column(quote_text(index.space)),
            matches.is_(true()),
        )
        .order_by(indexed_distance(tables, vectors.c.embedding, query, index))
        .limit(_times(_by_index(index), several))
    )


def _times(value: ColumnElement[int], factor: int) -> ColumnElement[int]:
    return value if factor == 1 else value * number(factor)


def _of_space(
    tables: Tables, vectors: FromClause, fields: EmbeddedFields, *, made: bool = True
) -> ColumnElement[bool]:
    return and_(
        vectors.c.namespace == text_parameter("namespace"),
        vectors.c.space == readable_space(tables),
        _is_embedded_field(vectors, fields),
        *((vectors.c.embedding.is_not(None),) if made else ()),
    )


def _is_embedded_field(vectors: FromClause, fields: EmbeddedFields) -> ColumnElement[bool]:
    """Say that a vector is of one of the fields; where others embed more, theirs are in the same space."""
    whole: list[ColumnElement[str]] = [CONTENT] if fields.content else []
    whole += [_constant(path.head) for path in fields.paths if not path.each]
    conditions = [vectors.c.field == name for name in whole]
    for path in fields.paths:
        if path.each:
            end = f"]{path.tail}"
            conditions.append(
                and_(
                    func.starts_with(vectors.c.field, _constant(f"{path.head}[")),
                    func.right(vectors.c.field, number(len(end))) == _constant(end),
                )
            )
    return or_(*conditions)


def nearest_field(
    tables: Tables, memories: FromClause, shape: RecallShape, distance: Distance
) -> ColumnElement[str]:
    """Return the field of a memory whose vector is nearest to the query's, null if it has none."""
    vectors = tables.memory_embeddings.alias("of_field")
    return (
        select(vectors.c.field)
        .where(_of_space(tables, vectors, shape.fields), vectors.c.seq == memories.c.seq)
        .order_by(_distance(tables, vectors, distance), vectors.c.field.collate("C"))
        .limit(number(1))
        .correlate(memories)
        .scalar_subquery()
    )


def similarities(tables: Tables, found: CTE, shape: RecallShape, distance: Distance) -> CTE:
    """Return, for each memory found, the mean of its similarity and that of its neighbours in the thread.

    That of a memory is its best over the fields. ``by_rank``, it is what the rank of the mean is worth.
    """
    near = _neighbours(found)
    vectors = tables.memory_embeddings.alias("v")
    other = tables.memories.alias("other_in_thread")

    def looked_up(source: FromClause, *conditions: ColumnElement[bool]) -> Select[Any]:
        similarity = _similarity(_distance(tables, vectors, distance), distance)
        several = not shape.fields.are_usual
        found_one = (
            select((func.max(similarity) if several else similarity).label("similarity"))
            .select_from(source)
            .where(_of_space(tables, vectors, shape.fields), *conditions)
        )
        return found_one.group_by(vectors.c.seq) if several else found_one

    in_thread = other.join(
        vectors, and_(vectors.c.namespace == other.c.namespace, vectors.c.seq == other.c.seq)
    )
    one = union_all(
        # What was found was seen.
        looked_up(vectors, near.c.step == number(0), vectors.c.seq == near.c.seq),
        looked_up(
            in_thread, seen(other), near.c.step != number(0), other.c.place == near.c.place + near.c.step
        ),
    ).lateral("one")
    mean = (
        select(
            near.c.seq,
            divided(func.sum(near.c.share * one.c.similarity), func.sum(near.c.share)).label("similarity"),
        )
        .select_from(near.join(one, true()))
        .group_by(near.c.seq)
        .subquery("mean")
    )
    worth = (
        of_rank(func.rank().over(order_by=mean.c.similarity.desc())) if shape.by_rank else mean.c.similarity
    )
    return select(mean.c.seq, worth.label("similarity")).cte("similar")


def _similarity(found: ColumnElement[float], distance: Distance) -> ColumnElement[float]:
    """Return a similarity of 0 or more: cosine, inner product, or for l2 1 at distance 0 and less farther off."""
    if distance == "l2":
        return divided(number(1), number(1) + found)
    return func.greatest(number(1) - found if distance == "cosine" else -found, number(0), type_=Double)


def _neighbours(found: CTE) -> Any:
    steps = ", ".join(map(str, _SHARES))
    shares = ", ".join(map(str, _SHARES.values()))
    window = (
        func.unnest(
            literal_column(f"ARRAY[{steps}]::bigint[]"),
            literal_column(f"ARRAY[{shares}]::double precision[]"),
        )
        .table_valued(column("step", BigInteger), column("share", Double), name="around")
        .render_derived()
    )
    return (
        select(found.c.seq, found.c.place, window.c.step, window.c.share)
        # Only who is in a thread has neighbours.
        .select_from(found.join(window, or_(window.c.step == number(0), found.c.place > number(0))))
        .subquery("near_by")
    )
