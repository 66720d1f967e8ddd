"""From what was found to parts of a score: words, vectors, what a memory is, its thread, and what the record says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Numeric,
    Select,
    Text,
    case,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
)

from ..embedding.fields import USUAL, EmbeddedFields
from ..embedding.protocol import Distance
from .lexical import LexicalLeg
from .parameters import float_parameter, texts_parameter, time_parameter
from .predicates import Shape
from .space_index import SpaceIndexShape
from .word_hits import FEW, divided, number

#: How far in its thread a memory lends its score to others.
NEARBY = 12
#: The constant of reciprocal rank fusion, as Cormack, Clarke and Büttcher (2009) chose it.
RANKS = 60

#: The parts of a score that come from a query; those that relations and what a memory is add; in the order of addition.
ASKED = ("words", "context", "vector", "question", "subject", "thread")
PRIORS = ("recency", "importance", "confidence")
PARTS = (*ASKED, "relations", *PRIORS)

_DECIMALS = 10
_MOST_HALF_LIVES = 100

ZERO: ColumnElement[float] = literal_column("0::double precision", Double)


@dataclass(frozen=True, slots=True)
class RecallShape:
    """What a statement of `recall` has: only what the ranking weighs, since all of it costs time.

    ``matching`` is the shape of the filter, if ``filtered``: of up to ``few`` memories that match the nearest are found
    exactly, and 0 says that more do. With ``pruned`` not all places are looked at closely. A
    vector is compared by a ``distance``, if there is one, and found by an ``index``: that of the nearest of the
    ``fields`` of a memory, which is told if ``names_field``. ``by_rank`` fuses by ranks. With ``typos`` words that no
    memory holds are replaced.

    Without ``words`` none is looked for, nor a subject that they name: there is but the vector. Only then ``questions``
    may be left out, which weigh what others do, and what is ``nearby`` in the thread.
    """

    matching: Shape
    filtered: bool = False
    few: int = FEW
    words: bool = True
    questions: bool = True
    nearby: bool = True
    pruned: bool = False
    distance: Distance | None = None
    index: SpaceIndexShape | None = None
    fields: EmbeddedFields = USUAL
    names_field: bool = False
    by_rank: bool = False
    relations: bool = False
    priors: bool = False
    typos: bool = False

    @property
    def vector_alone(self) -> bool:
        """Whether the nearest memories are the best."""
        others = (self.words, self.questions, self.nearby, self.by_rank, self.relations, self.priors)
        return not any(others)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that a score of it may have."""
        return (*ASKED, *(("relations",) if self.relations else ()), *(PRIORS if self.priors else ()))


def added(columns: Any, names: tuple[str, ...]) -> ColumnElement[Any]:
    """Return the sum of parts, in their order, rounded: what a float's last bits make of equals is a tie."""
    total: ColumnElement[Any] = columns[f"part_{names[0]}"]
    for name in names[1:]:
        total = total + columns[f"part_{name}"]
    return cast(func.round(cast(total, Numeric), number(_DECIMALS)), Double)


def scores(leg: LexicalLeg | None, found: CTE, similar: CTE | None, shape: RecallShape) -> CTE:
    """Return the parts of what was found, but for what relations add."""
    parts = _with_thread(_shaped(leg, found, similar, shape), shape)
    return _by_rank(parts) if shape.by_rank else parts


def _shaped(leg: LexicalLeg | None, found: CTE, similar: CTE | None, shape: RecallShape) -> CTE:
    """Apply what the memory itself is."""
    base: FromClause = found
    words = around = vector = ZERO
    question: ColumnElement[Any] = number(1)
    subject: ColumnElement[Any] = number(1)
    if leg is not None:
        whole = select(func.sum(leg.weights.c.whole).label("weight")).subquery("whole")
        base = base.join(whole, true())
        words, around = (
            float_parameter("lexical_weight") * func.coalesce(divided(weight, whole.c.weight), ZERO)
            for weight in (found.c.own, found.c.score - found.c.own)
        )
    if similar is not None:
        base = base.outerjoin(similar, found.c.seq == similar.c.seq)
        vector = float_parameter("vector_weight") * func.coalesce(similar.c.similarity, ZERO)
    if shape.questions:
        question = case((found.c.asks, float_parameter("question")), else_=number(1))
    if shape.words:
        named = _named_subject(found).subquery("asked_about")
        base = base.join(named, true())
        subject = case((found.c.subject == named.c.subject, float_parameter("subject")), else_=number(1))
    legs = (
        select(
            *_kept(found, shape),
            words.label("part_words"),
            around.label("part_context"),
            vector.label("part_vector"),
            question.label("question"),
            subject.label("subject"),
        )
        .select_from(base)
        .subquery("legs")
    )
    unshaped = legs.c.part_words + legs.c.part_context
    if not shape.by_rank:
        unshaped = unshaped + legs.c.part_vector
    return (
        select(
            *_kept(legs, shape),
            *(legs.c[f"part_{name}"] for name in ASKED[:3]),
            (unshaped * (legs.c.question - number(1))).label("part_question"),
            (unshaped * legs.c.question * (legs.c.subject - number(1))).label("part_subject"),
            (unshaped * legs.c.question * legs.c.subject).label("shaped"),
        )
        .cte("shaped")
        .prefix_with("MATERIALIZED")
    )


def _kept(source: FromClause, shape: RecallShape) -> list[ColumnElement[Any]]:
    names = ("seq", "place", *(("created_at", "importance", "confidence") if shape.priors else ()))
    return [source.c[name] for name in names]


def _with_thread(shaped: CTE, shape: RecallShape) -> CTE:
    """Add what the best one nearby in its thread lends a memory, and its priors."""
    # As text, since SQLAlchemy would bind the ends of the range.
    around = f"ORDER BY shaped.place RANGE BETWEEN {NEARBY} PRECEDING AND {NEARBY} FOLLOWING"
    nearby: ColumnElement[float] = literal_column(f"max(shaped.shaped) OVER ({around})", Double)
    thread = case((shaped.c.place > number(0), float_parameter("thread") * nearby), else_=number(0))
    return select(
        shaped.c.seq,
        *(shaped.c[f"part_{name}"] for name in ASKED[:-1]),
        thread.label("part_thread"),
        *(priors(shaped) if shape.priors else ()),
    ).cte("parts")


def _by_rank(parts: CTE) -> CTE:
    """Scale the parts but the vector's so that they add up to what the rank of their sum is worth."""
    of_words = tuple(name for name in ASKED if name != "vector")
    total = added(parts.c, of_words).label("total")
    summed = select(*parts.c, total).subquery("summed")
    worth = of_rank(func.rank().over(order_by=summed.c.total.desc()))
    scale = case(
        (summed.c.total > number(0), divided(float_parameter("lexical_weight") * worth, summed.c.total)),
        else_=number(0),
    )
    ranked = select(*summed.c, scale.label("scale")).subquery("by_rank")
    scaled = {f"part_{name}" for name in of_words}
    return select(
        *(
            (ranked.c[one.name] * ranked.c.scale).label(one.name)
            if one.name in scaled
            else ranked.c[one.name]
            for one in parts.c
        )
    ).cte("fused")


def of_rank(rank: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return what a rank is worth: 1 for the first, and less from one to the next."""
    return divided(literal_column(f"{RANKS + 1}::double precision", Double), number(RANKS) + rank)


def _named_subject(found: CTE) -> Select[Any]:
    """Select the one subject that the query names, null if it names none or several; a name inside a longer is none."""
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
    only = case((func.count() == number(1), func.min(one.c.subject)))
    return select(only.label("subject")).where(~inside.exists())


def priors(memories: FromClause) -> list[ColumnElement[Any]]:
    """Return what the record says of itself as parts of a score."""
    moment = func.coalesce(time_parameter("as_of"), func.statement_timestamp())
    age = func.greatest(func.extract("epoch", moment - memories.c.created_at), number(0), type_=Double)
    # After so many nothing is left that a rounded score shows; PostgreSQL has an error for what is nearly 0.
    half_lives = func.least(divided(age, float_parameter("half_life_seconds")), number(_MOST_HALF_LIVES))
    recency = float_parameter("recency") * func.power(literal_column("0.5::double precision"), half_lives)
    return [
        func.coalesce(recency, ZERO).label("part_recency"),
        (float_parameter("importance") * memories.c.importance).label("part_importance"),
        (float_parameter("confidence") * memories.c.confidence).label("part_confidence"),
    ]
