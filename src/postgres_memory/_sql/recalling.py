"""The statement of `recall`: from places with a score to whole records, best first, with the parts of their scores."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    and_,
    exists,
    false,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
)

from .known_words import replacements
from .lexical import LexicalLeg, is_question, lexical_leg
from .nearest import nearest
from .parameters import apart_from_planning, float_parameter, number_parameter, text_parameter
from .predicates import Shape, predicate
from .pulling import with_relations
from .records import select_records
from .schema import Tables
from .scoring import PRIORS, ZERO, RecallShape, added, priors, scores
from .searching import ranked_by_hash
from .similar import nearest_field, similarities
from .spaces import readable_space
from .twins import by_memory
from .word_hits import APART, Matching, divided, matching_memory, matching_places, number, place_of, seen


def recall_lexical(tables: Tables, shape: RecallShape) -> Select[Any]:
    """Select the memories that match, best first, each with its score and parts.

    First come those that hold a word of the query or stand near one that does; if they are fewer than the limit, others
    follow in insertion order. With a vector those nearest to it come in, too. ``found`` is how many have something of
    the words, ``complete`` is false where only the most promising places were looked at, and others may hold something
    of the query, and ``searched`` where there is no space to find the nearest in; ``vector_why`` says how those were
    found. With ``names_field`` ``field`` is the one whose vector is nearest. With ``typos``
    ``misspelt`` are words of the query that ``nearest`` were looked for in place of.
    """
    if not shape.words:
        return _recall_by_vector(tables, shape)
    filtered = shape.matching if shape.filtered else None
    leg = lexical_leg(tables, pruned=shape.pruned, shape=filtered, typos=shape.typos)
    found = by_words = by_memory(tables, leg, _found(tables, leg, shape))
    similar: CTE | None = None
    why: ColumnElement[Any] = null()
    if shape.distance is not None:
        near = nearest(tables, shape, shape.distance, leg.matching)
        found, why = _with_nearest(tables, by_words, near.memories, shape), near.why
        similar = similarities(tables, found, shape, shape.distance)
    ranked = scores(leg, found, similar, shape)
    complete = func.coalesce(leg.complete, true())
    statement = _best(tables, ranked, found, shape, _Said(by_words, complete, why, leg.matching))
    if leg.near is not None:
        statement = statement.add_columns(*replacements(leg.near))
    # With a filter or an index of vectors, which plan is best depends on the values.
    return statement if shape.filtered or shape.index is not None else apart_from_planning(statement)


def _recall_by_vector(tables: Tables, shape: RecallShape) -> Select[Any]:
    """Select what is nearest by its vector, where words weigh nothing; ``found`` is how many that is."""
    assert shape.distance is not None
    matching = matching_places(tables, shape.matching) if shape.filtered and shape.pruned else None
    near = nearest(tables, shape, shape.distance, matching)
    memories = tables.memories.alias("near_memory")
    # OFFSET keeps this a lookup of each; a generic plan would read all memories of the namespace into a hash join.
    each = (
        select(*_traits(memories, shape))
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == near.memories.c.seq)
        .offset(number(0))
        .lateral("each_near")
    )
    found = (
        select(*each.c).select_from(near.memories.join(each, true())).cte("found").prefix_with("MATERIALIZED")
    )
    ranked = scores(None, found, similarities(tables, found, shape, shape.distance), shape)
    return _best(tables, ranked, found, shape, _Said(near.memories, true(), near.why, matching))


class _Said(NamedTuple):
    """What is known of all that was found: what is counted, how it was found, and what matches the filter."""

    counted: CTE
    complete: ColumnElement[bool]
    why: ColumnElement[Any]
    matching: Matching | None


def _best(tables: Tables, ranked: CTE, found: CTE, shape: RecallShape, said: _Said) -> Select[Any]:
    """Select the best of what is ranked, with what is ``said`` of it all."""
    if shape.relations:
        ranked = found = with_relations(tables, ranked, shape)
    best = cut(_with_others(tables, ranked, found, shape, said.matching), shape.parts)
    searched = false() if shape.distance is None else readable_space(tables).is_not(None)
    statement = whole_records(tables, best, shape.parts).add_columns(
        select(func.count()).select_from(said.counted).scalar_subquery().label("found"),
        said.complete.label("complete"),
        searched.label("searched"),
        said.why.label("vector_why"),
    )
    if shape.names_field and shape.distance is not None:
        statement = statement.add_columns(nearest_field(tables, best, shape, shape.distance).label("field"))
    return statement


def recall_hash(tables: Tables, long_query: bool, shape: Shape) -> Select[Any]:
    """Select the memories that match ``shape`` in the exact order of `search`, each with its score and priors."""

    def visible(hashes: FromClause) -> ColumnElement[bool]:
        matches = matching_memory(tables, hashes.c.seq, shape, "matching")
        return and_(hashes.c.namespace == text_parameter("namespace"), matches.exists())

    ranked = ranked_by_hash(tables, long_query=long_query, visible=visible, limit="candidates")
    memories = tables.memories.alias("ranked")
    parts = (
        select(
            ranked.c.seq,
            (float_parameter("vector_weight") * ranked.c.score).label("part_vector"),
            *priors(memories),
        )
        .select_from(ranked.join(memories, memories.c.seq == ranked.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"))
    )
    names = ("vector", *PRIORS)
    return whole_records(tables, cut(parts.subquery("everything"), names), names)


def whole_records(tables: Tables, best: CTE, parts: tuple[str, ...]) -> Select[Any]:
    """Select the best, in order, as whole records with their scores and these parts."""
    record = (
        select_records(tables)
        .where(
            tables.memories.c.namespace == text_parameter("namespace"), tables.memories.c.seq == best.c.seq
        )
        .offset(number(0))
        .lateral("record")
    )
    return (
        select(*record.c, best.c.score, *(best.c[f"part_{name}"] for name in parts))
        .select_from(best.join(record, true()))
        .order_by(best.c.score.desc(), best.c.seq)
    )


def _traits(memories: FromClause, shape: RecallShape) -> list[ColumnElement[Any]]:
    """What a memory's own nature adds to its score."""
    said = memories.c.metadata.op("->>")(text_parameter("subject_field"))
    subject = func.lower(func.normalize(said, literal_column("NFKC")))
    return [
        memories.c.seq,
        place_of(memories).label("place"),
        *((is_question(memories).label("asks"),) if shape.questions else ()),
        *((subject.label("subject"),) if shape.words else ()),
        *((memories.c.created_at, memories.c.importance, memories.c.confidence) if shape.priors else ()),
    ]


def _found(tables: Tables, leg: LexicalLeg, shape: RecallShape) -> CTE:
    """The memories at the best places that match, each looked up by itself, so that it ends when there are enough."""
    chosen = select(leg.scored.c.place, leg.scored.c.score, leg.scored.c.own)
    if leg.matching is not None:
        matching = leg.matching.places
        among = select(matching.c.place).where(leg.matching.few)
        chosen = chosen.where(or_(~leg.matching.few, leg.scored.c.place.in_(among)))
    # Of places alike those of memories without a thread come first, which so are in insertion order.
    places = chosen.order_by(leg.scored.c.score.desc(), func.abs(leg.scored.c.place)).subquery("places")
    threaded, single = tables.memories.alias("threaded"), tables.memories.alias("single")
    at_place = select(*_traits(threaded, shape)).where(
        threaded.c.place == places.c.place, seen(threaded), predicate(threaded, shape.matching)
    )
    alone = select(*_traits(single, shape)).where(
        places.c.place < number(0),
        places.c.place.op("%", precedence=8)(number(APART)) == number(0),
        single.c.seq == divided(-places.c.place, number(APART)),
        single.c.place.is_(None),
        seen(single),
        predicate(single, shape.matching),
    )
    memory = union_all(at_place, alone).lateral("memory")
    return (
        select(*memory.c, places.c.score, places.c.own)
        .select_from(places.join(memory, true()))
        .order_by(places.c.score.desc(), func.abs(places.c.place))
        .limit(number_parameter("candidates"))
        .cte("found")
        .prefix_with("MATERIALIZED")
    )


def _with_nearest(tables: Tables, found: CTE, near: CTE, shape: RecallShape) -> CTE:
    """Add the memories whose vectors are nearest, as such that hold no word, to those that do."""
    memories = tables.memories.alias("near_memory")
    among: Select[Any] = select(number(1)).where(found.c.seq == near.c.seq)
    added = (
        select(*_traits(memories, shape), ZERO.label("score"), ZERO.label("own"))
        .select_from(near.join(memories, memories.c.seq == near.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"), ~among.exists())
    )
    return union_all(select(found), added).cte("found_by_either").prefix_with("MATERIALIZED")


def _with_others(
    tables: Tables, ranked: CTE, found: CTE, shape: RecallShape, matching: Matching | None
) -> CTE:
    """What was found and, if that is too little, memories without a word of the query."""
    memories = tables.memories.alias("other")
    missing = func.greatest(
        number_parameter("limit") - select(func.count()).select_from(found).scalar_subquery(), number(0)
    )
    columns = (
        memories.c.seq,
        *(ZERO.label(f"part_{name}") for name in shape.parts if name not in PRIORS),
        *(priors(memories) if shape.priors else ()),
    )

    def not_found(seq: ColumnElement[int]) -> ColumnElement[bool]:
        return ~exists(select(number(1)).where(found.c.seq == seq))

    others = (
        select(*columns)
        .where(seen(memories), predicate(memories, shape.matching), not_found(memories.c.seq))
        .order_by(memories.c.seq)
        .limit(missing)
    )
    if matching is None:
        return union_all(select(ranked), others.subquery("others").select()).cte("everything")
    # Few that match are known: the namespace is not read through for the first of them.
    places = matching.places
    known = (
        select(places.c.seq)
        .where(matching.few, not_found(places.c.seq))
        .order_by(places.c.seq)
        .limit(missing)
        .subquery("known")
    )
    each = (
        select(*columns)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == known.c.seq)
        .offset(number(0))
        .lateral("each_known")
    )
    return union_all(
        select(ranked),
        others.where(~matching.few).subquery("others").select(),
        select(*each.c).select_from(known.join(each, true())),
    ).cte("everything")


def cut(everything: FromClause, parts: tuple[str, ...]) -> CTE:
    """Add up the parts and keep the best."""
    scored = select(everything, added(everything.c, parts).label("score")).subquery("with_scores")
    return (
        select(scored)
        .where(scored.c.score >= float_parameter("min_score"))
        .order_by(scored.c.score.desc(), scored.c.seq)
        .limit(number_parameter("limit"))
        .cte("best")
    )
