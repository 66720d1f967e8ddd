"""What relations add to a ranking: the first hits pull in what supports or extends them, and lose by contradictions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, ColumnElement, Select, func, literal_column, select, true, union_all

from .parameters import float_parameter, text_parameter
from .predicates import predicate
from .schema import Tables
from .scoring import ASKED, ZERO, RecallShape, added, priors
from .word_hits import number, seen

#: The relations of so many of the first hits are read,
FIRST = 20
#: and of each so many from either side, the most confident ones.
MOST_RELATIONS = 50


def with_relations(tables: Tables, parts: CTE, shape: RecallShape) -> CTE:
    """Return ``parts`` with what relations add, and with the memories that they bring in.

    A memory gets of the hits that it supports or extends, or that support or extend it, the largest score times the
    confidence; who is contradicted loses the largest confidence's share of its score. Both times the weight.
    """
    met = _met(tables, _first(tables, parts))
    pulled, pushed = _pulled(tables, met, shape), _pushed(tables, met)
    weight = float_parameter("relations")
    gain = weight * func.coalesce(pulled.c.gain, ZERO)
    loss = func.coalesce(func.least(weight * pushed.c.confidence, number(1)) * pushed.c.score, ZERO)
    known = select(
        parts.c.seq,
        *(parts.c[f"part_{name}"] for name in ASKED),
        (gain - loss).label("part_relations"),
        *(one for one in parts.c if one.name in _PRIORS),
    ).select_from(
        parts.outerjoin(pulled, pulled.c.seq == parts.c.seq).outerjoin(pushed, pushed.c.seq == parts.c.seq)
    )
    memories = tables.memories.alias("pulled_memory")
    among: Select[Any] = select(number(1)).where(parts.c.seq == pulled.c.seq)
    brought = (
        select(
            pulled.c.seq,
            *(ZERO.label(f"part_{name}") for name in ASKED),
            (weight * pulled.c.gain).label("part_relations"),
            *(priors(memories) if shape.priors else ()),
        )
        .select_from(pulled.join(memories, memories.c.seq == pulled.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"), ~among.exists())
    )
    return union_all(known, brought).cte("with_relations").prefix_with("MATERIALIZED")


_PRIORS = ("part_recency", "part_importance", "part_confidence")


def _first(tables: Tables, parts: CTE) -> CTE:
    """The first hits, by what comes from the query."""
    scored = select(parts.c.seq, added(parts.c, ASKED).label("score")).subquery("scored_parts")
    best = select(scored).order_by(scored.c.score.desc(), scored.c.seq).limit(number(FIRST)).subquery("first")
    memories = tables.memories.alias("first_memory")
    return (
        select(best.c.seq, best.c.score, memories.c.id)
        .select_from(best.join(memories, memories.c.seq == best.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"))
        .cte("first_hits")
        .prefix_with("MATERIALIZED")
    )


def _met(tables: Tables, first: CTE) -> CTE:
    """The relations at the first hits: who is met by which, how, and how surely."""

    def side(near: str, far: str, *types: str) -> Select[Any]:
        relations = tables.memory_relations.alias(f"by_{near}")
        other = relations.c[f"{far}_id"]
        return (
            select(other.label("id"), relations.c.relation_type, relations.c.confidence)
            .where(
                relations.c.namespace == text_parameter("namespace"),
                relations.c[f"{near}_id"] == first.c.id,
                relations.c.relation_type.in_([literal_column(f"'{one}'") for one in types]),
            )
            .order_by(relations.c.confidence.desc(), other)
            .limit(number(MOST_RELATIONS))
        )

    begun = side("source", "target", "supports", "extends")
    ended = side("target", "source", "supports", "extends", "contradicts")
    each = union_all(begun, ended).lateral("met_by_hit")
    return (
        select(first.c.seq, first.c.score, each.c.id, each.c.relation_type, each.c.confidence)
        .select_from(first.join(each, true()))
        .cte("met")
        .prefix_with("MATERIALIZED")
    )


def _contradicts(met: CTE) -> ColumnElement[bool]:
    return met.c.relation_type == literal_column("'contradicts'")


def _pulled(tables: Tables, met: CTE, shape: RecallShape) -> CTE:
    memories = tables.memories.alias("neighbour")
    return (
        select(memories.c.seq, func.max(met.c.confidence * met.c.score).label("gain"))
        .select_from(met.join(memories, memories.c.id == met.c.id))
        .where(~_contradicts(met), seen(memories), predicate(memories, shape.matching))
        .group_by(memories.c.seq)
        .cte("pulled")
        .prefix_with("MATERIALIZED")
    )


def _pushed(tables: Tables, met: CTE) -> CTE:
    memories = tables.memories.alias("against")
    return (
        select(met.c.seq, met.c.score, func.max(met.c.confidence).label("confidence"))
        .select_from(met.join(memories, memories.c.id == met.c.id))
        .where(_contradicts(met), seen(memories))
        .group_by(met.c.seq, met.c.score)
        .cte("pushed")
    )
