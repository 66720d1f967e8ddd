"""The statement of `recall`: from places with a score to whole records, best first, with the parts of their scores."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Numeric,
    Select,
    Subquery,
    Text,
    and_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from ..embedding.protocol import Distance
from .known_words import replacements
from .lexical import (
    APART,
    LexicalLeg,
    divided,
    is_question,
    lexical_leg,
    matching_memory,
    number,
    place_of,
    seen,
)
from .parameters import (
    apart_from_planning,
    float_parameter,
    number_parameter,
    text_parameter,
    texts_parameter,
    time_parameter,
)
from .predicates import Shape, predicate
from .records import select_records
from .schema import Tables
from .searching import ranked_by_hash
from .similar import nearest, similarities
from .space_index import SpaceIndexShape
from .spaces import readable_space
from .twins import by_memory

#: How far in its thread a memory lends its score to others.
NEARBY = 12

_DECIMALS = 10
_MOST_HALF_LIVES = 100

#: The parts of a score, in the order in which they are added up.
PARTS = ("words", "context", "vector", "form", "subject", "thread", "recency", "importance", "confidence")
#: The parts that come from a query, and not from what a memory is.
_ASKED = 6

_ZERO: ColumnElement[float] = literal_column("0::double precision", Double)


def recall_lexical(
    tables: Tables,
    pruned: bool,
    filtered: bool,
    distance: Distance | None,
    index: SpaceIndexShape | None,
    typos: bool,
    shape: Shape,
) -> Select[Any]:
    """Select the memories that match ``shape``, best first, each with its score and parts.

    First come those that hold a word of the query or stand near one that does; if they are fewer than the limit, others
    follow in insertion order. With a ``distance`` those nearest to the query's vector by it come in, too. ``complete``
    is false where only the most promising places were looked at, and others may hold something of the query,
    and ``searched`` where there is no space to find the nearest in. With ``typos`` ``misspelt`` are words of the query
    that ``nearest`` were looked for in place of.
    """
    leg = lexical_leg(tables, pruned=pruned, shape=shape if filtered else None, typos=typos)
    few = None if leg.matching is None else leg.matching.few
    found = by_memory(tables, leg, _found(tables, leg, shape))
    similar = None
    if distance is not None:
        found = _with_nearest(tables, found, nearest(tables, distance, shape, index, few))
        similar = similarities(tables, found, distance)
    statement = _records(tables, _best(tables, _scores(leg, found, similar), found, shape))
    searched = false() if distance is None else readable_space(tables).is_not(None)
    complete = func.coalesce(leg.complete, true())
    statement = statement.add_columns(complete.label("complete"), searched.label("searched"))
    if leg.near is not None:
        statement = statement.add_columns(*replacements(leg.near))
    # With a filter or an index of vectors, what is best depends on the values.
    return statement if filtered or index is not None else apart_from_planning(statement)


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
            *(_ZERO.label(f"part_{name}") for name in PARTS[:2]),
            (float_parameter("vector_weight") * ranked.c.score).label("part_vector"),
            *(_ZERO.label(f"part_{name}") for name in PARTS[3:_ASKED]),
            *_priors(memories),
        )
        .select_from(ranked.join(memories, memories.c.seq == ranked.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"))
    )
    return _records(tables, _cut(parts.subquery("everything")))


def _records(tables: Tables, best: CTE) -> Select[Any]:
    record = (
        select_records(tables)
        .where(
            tables.memories.c.namespace == text_parameter("namespace"), tables.memories.c.seq == best.c.seq
        )
        .offset(number(0))
        .lateral("record")
    )
    return (
        select(*record.c, best.c.score, *(best.c[f"part_{name}"] for name in PARTS))
        .select_from(best.join(record, true()))
        .order_by(best.c.score.desc(), best.c.seq)
    )


def _traits(memories: FromClause) -> list[ColumnElement[Any]]:
    """What a memory's own nature adds to its score."""
    said = memories.c.metadata.op("->>")(text_parameter("subject_field"))
    subject = func.lower(func.normalize(said, literal_column("NFKC")))
    return [
        memories.c.seq,
        place_of(memories).label("place"),
        memories.c.created_at,
        memories.c.importance,
        memories.c.confidence,
        is_question(memories).label("asks"),
        func.char_length(memories.c.content).label("length"),
        subject.label("subject"),
    ]


def _found(tables: Tables, leg: LexicalLeg, shape: Shape) -> CTE:
    """The memories at the best places that match, each looked up by itself, so that it ends when there are enough."""
    chosen = select(leg.scored.c.place, leg.scored.c.score, leg.scored.c.own)
    if leg.matching is not None:
        matching = leg.matching.places
        among = select(matching.c.place).where(leg.matching.few)
        chosen = chosen.where(or_(~leg.matching.few, leg.scored.c.place.in_(among)))
    # Of places alike those of memories without a thread come first, which so are in insertion order.
    places = chosen.order_by(leg.scored.c.score.desc(), func.abs(leg.scored.c.place)).subquery("places")
    threaded, single = tables.memories.alias("threaded"), tables.memories.alias("single")
    at_place = select(*_traits(threaded)).where(
        threaded.c.place == places.c.place, seen(threaded), predicate(threaded, shape)
    )
    alone = select(*_traits(single)).where(
        places.c.place < number(0),
        places.c.place.op("%", precedence=8)(number(APART)) == number(0),
        single.c.seq == divided(-places.c.place, number(APART)),
        single.c.place.is_(None),
        seen(single),
        predicate(single, shape),
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


def _with_nearest(tables: Tables, found: CTE, near: CTE) -> CTE:
    """Add the memories whose vectors are nearest, as such that hold no word, to those that do."""
    memories = tables.memories.alias("near_memory")
    among: Select[Any] = select(number(1)).where(found.c.seq == near.c.seq)
    added = (
        select(*_traits(memories), _ZERO.label("score"), _ZERO.label("own"))
        .select_from(near.join(memories, memories.c.seq == near.c.seq))
        .where(memories.c.namespace == text_parameter("namespace"), ~among.exists())
    )
    return union_all(select(found), added).cte("found_by_either").prefix_with("MATERIALIZED")


def _scores(leg: LexicalLeg, found: CTE, similar: CTE | None) -> CTE:
    """Apply what the memory itself is, then what the best one nearby in its thread lends it."""
    total = select(func.sum(leg.weights.c.whole)).scalar_subquery()
    by_subject = case((found.c.subject == _named_subject(found), float_parameter("subject")), else_=number(1))
    length = found.c.length
    form = divided(length, func.greatest(length + float_parameter("brevity"), _one())) * case(
        (found.c.asks, float_parameter("question")), else_=number(1)
    )
    lexical = func.coalesce(divided(found.c.score, total), _ZERO)
    by_words = float_parameter("lexical_weight")
    vector: ColumnElement[Any] = _ZERO
    base: FromClause = found
    if similar is not None:
        # Scaled to the best lexical score, so that the scale of the whole stays that of words.
        best = func.coalesce(func.nullif(func.max(lexical).over(), number(0)), number(1))
        vector = float_parameter("vector_weight") * best * func.coalesce(similar.c.scaled, _ZERO)
        base = found.outerjoin(similar, found.c.seq == similar.c.seq)
    unformed = by_words * lexical + vector
    formed = unformed * form
    parts = (
        select(
            found.c.seq,
            found.c.place,
            found.c.created_at,
            found.c.importance,
            found.c.confidence,
            (by_words * func.coalesce(divided(found.c.own, total), _ZERO)).label("words"),
            (by_words * func.coalesce(divided(found.c.score - found.c.own, total), _ZERO)).label("context"),
            vector.label("vector"),
            (formed - unformed).label("form"),
            (formed * by_subject - formed).label("subject"),
            (formed * by_subject).label("shaped"),
        )
        .select_from(base)
        .cte("shaped")
        .prefix_with("MATERIALIZED")
    )
    # As text, since SQLAlchemy would bind the ends of the range.
    around = f"ORDER BY shaped.place RANGE BETWEEN {NEARBY} PRECEDING AND {NEARBY} FOLLOWING"
    nearby: ColumnElement[float] = literal_column(f"max(shaped.shaped) OVER ({around})", Double)
    thread = case((parts.c.place > number(0), float_parameter("thread") * nearby), else_=number(0))
    return select(
        parts.c.seq,
        parts.c.words.label("part_words"),
        parts.c.context.label("part_context"),
        parts.c.vector.label("part_vector"),
        parts.c.form.label("part_form"),
        parts.c.subject.label("part_subject"),
        thread.label("part_thread"),
        *_priors(parts),
    ).cte("parts")


def _named_subject(found: CTE) -> ColumnElement[Any]:
    """Return the one subject that the query names, null if it names none or several; a name inside a longer is none."""
    # Joined, since each comparison with an array goes through all of it.
    names = (
        func.unnest(texts_parameter("names"))
        .table_valued(column("name", Text), name="names")
        .render_derived()
    )
    named = (
        select(found.c.subject)
        .select_from(found.join(names, names.c.name == found.c.subject))
        .distinct()
        .cte("named")
        .prefix_with("MATERIALIZED")
    )
    one, longer = named.alias("one"), named.alias("longer")
    inside: Select[Any] = select(number(1)).where(
        longer.c.subject != one.c.subject, func.strpos(longer.c.subject, one.c.subject) > number(0)
    )
    return (
        select(case((func.count() == number(1), func.min(one.c.subject))))
        .where(~inside.exists())
        .scalar_subquery()
    )


def _priors(memories: FromClause) -> list[ColumnElement[Any]]:
    moment = func.coalesce(time_parameter("as_of"), func.statement_timestamp())
    age = func.greatest(func.extract("epoch", moment - memories.c.created_at), number(0), type_=Double)
    # After so many nothing is left that a rounded score shows; PostgreSQL has an error for what is nearly 0.
    half_lives = func.least(divided(age, float_parameter("half_life_seconds")), number(_MOST_HALF_LIVES))
    recency = float_parameter("recency") * func.power(literal_column("0.5::double precision"), half_lives)
    return [
        func.coalesce(recency, _ZERO).label("part_recency"),
        (float_parameter("importance") * memories.c.importance).label("part_importance"),
        (float_parameter("confidence") * memories.c.confidence).label("part_confidence"),
    ]


def _best(tables: Tables, parts: CTE, found: CTE, shape: Shape) -> CTE:
    """The best of what was found and, if that is too little, memories without a word of the query."""
    memories = tables.memories.alias("other")
    missing = func.greatest(
        number_parameter("limit") - select(func.count()).select_from(found).scalar_subquery(), number(0)
    )
    others = (
        select(
            memories.c.seq,
            *(_ZERO.label(f"part_{name}") for name in PARTS[:_ASKED]),
            *_priors(memories),
        )
        .where(
            seen(memories),
            predicate(memories, shape),
            ~exists(select(number(1)).where(found.c.seq == memories.c.seq)),
        )
        .order_by(memories.c.seq)
        .limit(missing)
    )
    return _cut(union_all(select(parts), others.subquery("others").select()).subquery("everything"))


def _cut(everything: Subquery) -> CTE:
    """Add up the parts and keep the best."""
    score: ColumnElement[Any] = everything.c[f"part_{PARTS[0]}"]
    for name in PARTS[1:]:
        score = score + everything.c[f"part_{name}"]
    # Sums of floats depend on the order in which an aggregate meets them; rounded, what is equal is a tie.
    rounded = cast(func.round(cast(score, Numeric), number(_DECIMALS)), Double)
    scored = select(everything, rounded.label("score")).subquery("with_scores")
    return (
        select(scored)
        .where(scored.c.score >= float_parameter("min_score"))
        .order_by(scored.c.score.desc(), scored.c.seq)
        .limit(number_parameter("limit"))
        .cte("best")
    )


def _one() -> ColumnElement[float]:
    return literal_column("1::double precision", Double)
