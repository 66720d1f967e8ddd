"""Memories that share a place, as two do that were added to one thread at the same moment.

Words are scored by place, so that each of them would have the other's words for its own. For these few the words are
scored once more, by memory: what the other one holds counts as if it stood one place away, before or behind it in the
order of insertion.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    FromClause,
    Select,
    and_,
    case,
    column,
    func,
    select,
    true,
)

from .lexical import LexicalLeg, is_question
from .parameters import float_parameter, floats_parameter, numbers_parameter, text_parameter
from .schema import Tables
from .word_hits import number


def by_memory(tables: Tables, leg: LexicalLeg, found: CTE) -> CTE:
    """Return what was ``found`` with scores of its own for each memory that shares its place."""
    memories = tables.memories.alias("twin")
    twin: Select[Any] = select(number(1)).where(
        memories.c.namespace == text_parameter("namespace"),
        memories.c.place == found.c.place,
        memories.c.seq != found.c.seq,
    )
    marked = (
        select(found, and_(found.c.place > number(0), twin.exists()).label("shared"))
        .cte("found_marked")
        .prefix_with("MATERIALIZED")
    )
    words, weights = _words(tables, leg, marked), leg.weights
    apart = (
        select(
            func.sum(words.c.share * weights.c.weight).label("score"),
            func.sum(words.c.own * weights.c.weight).label("own"),
        )
        .select_from(words.join(weights, words.c.g == weights.c.g))
        .where(marked.c.shared)
        .lateral("apart")
    )
    scores = (
        case((marked.c.shared, func.coalesce(apart.c[name], number(0))), else_=marked.c[name]).label(name)
        for name in ("score", "own")
    )
    return (
        select(*(marked.c[column.name] for column in found.c if column.name not in ("score", "own")), *scores)
        .select_from(marked.join(apart, true()))
        .cte("found_by_memory")
        .prefix_with("MATERIALIZED")
    )


def _words(tables: Tables, leg: LexicalLeg, found: CTE) -> FromClause:
    """The words near one memory, each with its nearest share, and whether the memory holds it."""
    hits, holder = leg.hits, tables.memories.alias("twin_holder")
    away = found.c.place - hits.c.place
    distance: ColumnElement[int] = case(
        (away != number(0), away),
        (hits.c.seq == found.c.seq, number(0)),
        (hits.c.seq < found.c.seq, number(1)),
        else_=number(-1),
    )
    window = (
        func.unnest(numbers_parameter("distances"), floats_parameter("nearness"))
        .table_valued(column("distance", BigInteger), column("share", Double), name="twin_window")
        .render_derived()
    )
    asks = (
        select(is_question(holder))
        .where(holder.c.namespace == text_parameter("namespace"), holder.c.seq == hits.c.seq)
        .scalar_subquery()
    )
    share = case(
        (
            and_(window.c.distance == number(1), asks),
            func.greatest(window.c.share, float_parameter("answer")),
        ),
        else_=window.c.share,
    )
    return (
        select(
            hits.c.g,
            func.max(share).label("share"),
            func.max(case((window.c.distance == number(0), number(1)), else_=number(0))).label("own"),
        )
        .select_from(hits.join(window, window.c.distance == distance))
        .group_by(hits.c.g)
        .correlate(found)
        .lateral("words_of_memory")
    )
