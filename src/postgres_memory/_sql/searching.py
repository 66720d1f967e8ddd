"""The exact search: cosine of shingle counts, ordered as if computed with unlimited precision, ties by insertion.

A memory with counts ``m`` has cosine ``m·q / √(m·m q·q)`` with a query ``q``; counts are never negative, so ordering
by ``(m·q)² / m·m`` is ordering by cosine, and that is a fraction of integers. Four facts make it exact and fast:

- ``<#>`` adds up in float4, which is exact for integers while the sum stays under 2²⁴, that is (Cauchy-Schwarz)
  while ``m·m q·q`` stays under 2⁴⁸.
- Two different fractions ``a/b`` and ``c/d`` differ by at least ``1/ad`` of their size. With ``a ≤ m·m q·q``, float8
  keeps them apart while ``m·m n·n q·q`` stays under 2⁵²: for memories up to `SHORT_SQUARED_NORM` (2¹⁷, about 2,000
  characters of prose) and queries up to `SHORT_QUERY_SQUARED_NORM` (2¹⁸).
- The longer memories are few. They have an index of their own and are ranked in numeric, whose 50 decimals are
  more than the 29 that two fractions with denominators up to 2⁴⁸ can need (and than the 48 of the middle between two
  float8, so that the key becomes the float8 nearest to the fraction, as in Python).
- The best of both are put in order by the numeric key.

So a statement has two legs, and a query longer than the bound takes only the numeric one. Contents are fetched last,
for the memories that are returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Numeric,
    Select,
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
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL

from .parameters import apart_from_planning, counts_parameter, number_parameter, once, text_parameter
from .schema import SHORT_SQUARED_NORM, Tables
from .types import negative_inner_product

#: Queries up to this squared norm may use the float8 leg.
SHORT_QUERY_SQUARED_NORM = 2 * SHORT_SQUARED_NORM

#: No 32 counts, each below 2²⁴, have a larger squared norm. What has comes from SQL of somebody's own, and is not
#: ranked: its products may fit no bigint, and searches of others must not end by it.
_LARGEST = literal_column(str(32 * 2**48), Double)

_FLOAT4_EXACT = literal_column(str(2**48), Double)
_DECIMALS = 50


#: Which of the rows of `memory_hash_embeddings` are ranked.
Visible = Callable[[FromClause], ColumnElement[bool]]


def search_short_query(tables: Tables, expected: int | None) -> Select[Any]:
    """Rank memories against a query of ordinary length: float8 for short memories, numeric for long ones.

    ``expected`` is what the limit does not exceed.
    """
    ranked = ranked_by_hash(tables, long_query=False, visible=_visible, limit="limit", expected=expected)
    return apart_from_planning(_contents(tables, ranked))


def search_long_query(tables: Tables) -> Select[Any]:
    """Rank memories against a very long query: numeric for all."""
    ranked = ranked_by_hash(tables, long_query=True, visible=_visible, limit="limit")
    return apart_from_planning(_contents(tables, ranked))


def ranked_by_hash(
    tables: Tables, *, long_query: bool, visible: Visible, limit: str, expected: int | None = None
) -> CTE:
    """Return seq, exact key and score of the nearest memories; as many as the parameter ``limit`` says."""
    hashes = tables.ranked
    if long_query:
        ranked = select(hashes.c.seq).where(visible(hashes), hashes.c.squared_norm <= _LARGEST)
        legs = _exactly(tables, hashes, ranked).cte("legs")
        return _best(legs, limit)
    distance = negative_inner_product(hashes.c.embedding, _query(tables), tables.extension_schema)
    short = (
        select(hashes.c.seq)
        .where(visible(hashes), hashes.c.squared_norm <= literal_column(str(SHORT_SQUARED_NORM)))
        .order_by((distance * distance).op("/")(hashes.c.squared_norm).desc(), hashes.c.seq)
        # As many as the server can expect: of more than are asked for, the best are the same.
        .limit(number_parameter(limit) if expected is None else literal_column(str(expected)))
        .cte("short")
    )
    again = tables.memory_hash_embeddings.alias("again")
    best_short = (
        select(again.c.seq, again.c.squared_norm, again.c.embedding)
        .where(again.c.namespace == text_parameter("namespace"), again.c.seq == short.c.seq)
        .offset(literal_column("0"))
        .lateral("best")
    )
    long = and_(
        hashes.c.squared_norm > literal_column(str(SHORT_SQUARED_NORM)), hashes.c.squared_norm <= _LARGEST
    )
    legs = union_all(
        _exactly(tables, best_short, select(short.c.seq).join(best_short, literal_column("true"))),
        _exactly(tables, hashes, select(hashes.c.seq).where(visible(hashes), long)),
    ).cte("legs")
    return _best(legs, limit)


def _query(tables: Tables) -> ColumnElement[Any]:
    return once(counts_parameter("counts", tables))


def _visible(hashes: FromClause) -> ColumnElement[bool]:
    """Say which memories a search sees: active and not expired, by the database's clock."""
    return and_(
        hashes.c.namespace == text_parameter("namespace"),
        hashes.c.status == literal_column("'active'"),
        or_(hashes.c.expires_at.is_(None), hashes.c.expires_at > func.statement_timestamp()),
    )


def _exactly(tables: Tables, hashes: FromClause, rows: Select[Any]) -> Select[Any]:
    """Return seq, norm and the exact inner product (numeric) of ``rows``, which select from ``hashes``."""
    dot = case(
        (
            hashes.c.squared_norm * _query_norm() < _FLOAT4_EXACT,
            cast(
                -negative_inner_product(hashes.c.embedding, _query(tables), tables.extension_schema),
                BigInteger,
            ),
        ),
        else_=_integer_inner_product(hashes),
    )
    return rows.with_only_columns(
        hashes.c.seq,
        hashes.c.squared_norm,
        cast(dot, Numeric).label("dot"),
        maintain_column_froms=True,
    )


def _integer_inner_product(hashes: FromClause) -> ColumnElement[Any]:
    """Multiply out in integers what float4 cannot add up; a count is below 2²⁴, so float4 holds each."""
    pairs = (
        func.unnest(cast(hashes.c.embedding, ARRAY(REAL)), bindparam("counts", type_=ARRAY(Integer)))
        .table_valued(column("memory", REAL), column("query", Integer), name="pairs")
        .render_derived()
    )
    product = cast(pairs.c.memory, BigInteger) * cast(pairs.c.query, BigInteger)
    return select(func.sum(product)).select_from(pairs).scalar_subquery()


def _query_norm() -> ColumnElement[float]:
    return bindparam("query_norm", type_=Double())


def _best(legs: CTE, limit: str) -> CTE:
    """Return seq, key and score of the best of ``legs``."""
    square = func.round(legs.c.dot * legs.c.dot, literal_column(str(_DECIMALS)), type_=Numeric)
    key = square.op("/")(cast(cast(legs.c.squared_norm, BigInteger), Numeric)).label("key")
    # From the key, so that scores are never out of order and equal cosines have equal scores.
    cosine = func.sqrt(cast(key, Double).op("/")(_query_norm()), type_=Double)
    return (
        select(legs.c.seq, key, func.least(cosine, literal_column("1", Double)).label("score"))
        .order_by(key.desc(), legs.c.seq)
        .limit(number_parameter(limit))
        .cte("best_of_all")
    )


def _contents(tables: Tables, best: CTE) -> Select[Any]:
    """Return content, metadata, score and id of ``best``, in order."""
    memories = tables.memories
    # LATERAL with OFFSET 0 keeps this a lookup per row: under a generic plan, which cannot know the limit, the
    # planner would otherwise read the whole table into a hash join.
    found = (
        select(memories.c.content, cast(memories.c.metadata, Text).label("metadata"), memories.c.id)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == best.c.seq)
        .offset(literal_column("0"))
        .lateral("found")
    )
    return (
        select(found.c.content, found.c.metadata, best.c.score, found.c.id)
        .select_from(best.join(found, literal_column("true")))
        .order_by(best.c.key.desc(), best.c.seq)
    )
