"""The lexical leg: which words of a query are in which memories, or near them in their threads, and what they weigh.

A word weighs the more the fewer memories hold it (the inverse document frequency of BM25, Robertson and Zaragoza 2009,
"The Probabilistic Relevance Framework", without its length normalisation: memories are short), and the fewer threads
do. Frequencies are counted for each query, from the memories that it sees, so that they are never stale.

A memory gets each word once, at the nearest place at which its thread has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Lateral,
    Select,
    Text,
    and_,
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

from .asked import asked_words
from .calls import lexical_terms
from .known_words import nearest_words, terms_of_nearest
from .parameters import (
    float_parameter,
    floats_parameter,
    number_parameter,
    numbers_parameter,
    text_parameter,
    time_parameter,
)
from .predicates import Shape, predicate
from .schema import Tables

#: Memories without a thread stand this far apart, so that they are nobody's neighbours.
APART = 64
#: So many memories are counted to tell how many there are. Of more, words weigh as if there were so many.
_COUNTED = 10_000
#: So many hits of a word are read where only the most promising places count: a word that more memories hold weighs
#: next to nothing.
_MOST_HITS = 15_000
#: As many memories that match a filter are all looked at closely.
_FEW = 2_000
#: The rarest words lead to the places that are looked at: as many words as have so many hits together, two at least,
#: and enough of them to fill the places. Words that no memory holds lead nowhere.
_LEADING_HITS = 1_000
#: Places are looked at in blocks of four. What is near a place is in its block or the two beside it.
_BLOCK_BITS = 2
#: The places of one thread share all but these bits.
_THREAD_BITS = 24


def number(value: int) -> ColumnElement[int]:
    """Return an integer constant."""
    return literal_column(str(value), Integer)


def divided(dividend: ColumnElement[Any], divisor: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a quotient as PostgreSQL computes it; SQLAlchemy's own ``/`` adds casts."""
    return dividend.self_group().op("/", precedence=8)(divisor)


def seen(memories: FromClause, *, by_index: bool = True) -> ColumnElement[bool]:
    """Say which memories of the namespace are active and not expired at the instant ``as_of``.

    Without ``by_index`` the namespace is only checked, and no index is read for it.
    """
    moment = func.coalesce(time_parameter("as_of"), func.statement_timestamp())
    namespace = memories.c.namespace if by_index else memories.c.namespace.concat(literal_column("''"))
    return and_(
        namespace == text_parameter("namespace"),
        memories.c.status == literal_column("'active'"),
        or_(memories.c.expires_at.is_(None), memories.c.expires_at > moment),
    )


@dataclass(frozen=True, slots=True)
class Matching:
    """What matches a filter: ``few`` says whether that is all of them, with their ``places``, or the first of many."""

    places: CTE
    few: ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class LexicalLeg:
    """The ``hits`` of the words, their ``weights``, and places with their ``score``.

    ``complete`` says whether all places were looked for. ``near`` has the known words that replace misspelt ones, if
    they are looked for.
    """

    hits: CTE
    weights: CTE
    scored: CTE
    complete: ColumnElement[bool]
    matching: Matching | None = None
    near: CTE | None = None


def lexical_leg(tables: Tables, *, pruned: bool, shape: Shape | None, typos: bool) -> LexicalLeg:
    """Return places scored by the words in them and near them, the weight of what is in them as ``own``.

    With ``pruned`` only some blocks of places are looked at closely: those of the memories that match a filter's
    ``shape``, if they are few; else the most promising ones, around hits of the rarest words, by a bound that counts
    each of these words in a block and in its two neighbours in full.

    With ``typos`` a word that no memory holds is replaced by the known words nearest to it.
    """
    asked = asked_words(tables)
    capped = pruned and shape is None
    hits = _hits(tables, asked, "hits", capped=capped)
    of_thread = _counted_by_thread(hits, "of_thread")
    near = nearest_words(tables, asked, of_thread) if typos else None
    if near is not None:
        more = _hits(tables, terms_of_nearest(tables, near), "hits_of_nearest", capped=capped)
        hits = union_all(select(hits), select(more)).cte("hits_of_all")
        of_more = _counted_by_thread(more, "of_thread_of_nearest")
        of_thread = union_all(select(of_thread), select(of_more)).cte("of_thread_of_all")
    weights = _weights(tables, asked, of_thread, near)
    if not pruned:
        return LexicalLeg(hits, weights, _scored(_near(tables, hits, None), weights, None), true(), near=near)
    blocks = _best_blocks(hits, weights)
    complete: ColumnElement[bool] = select(func.bool_and(weights.c.leading)).scalar_subquery()
    matching = None
    if shape is not None:
        matching = _matching(tables, shape)
        of_few = select(_block(matching.places.c.place).label("block")).where(matching.few).distinct()
        blocks = union_all(of_few, select(blocks.c.block).where(~matching.few)).cte("blocks_with_filter")
        complete = matching.few
    scored = _scored(_near(tables, hits, blocks), weights, blocks)
    return LexicalLeg(hits, weights, scored, complete, matching, near)


def _matching(tables: Tables, shape: Shape) -> Matching:
    memories = tables.memories.alias("matching_memory")
    places = (
        select(place_of(memories).label("place"))
        .where(seen(memories), predicate(memories, shape))
        .limit(number(_FEW + 1))
        .cte("matching")
        .prefix_with("MATERIALIZED")
    )
    return Matching(places, select(func.count()).select_from(places).scalar_subquery() <= number(_FEW))


def matching_memory(tables: Tables, seq: ColumnElement[int], shape: Shape, name: str) -> Select[Any]:
    """Select ``true`` if the memory of a number is seen and matches a filter's ``shape``; ``name`` is its alias."""
    memories = tables.memories.alias(name)
    return select(literal_column("true")).where(
        seen(memories), memories.c.seq == seq, predicate(memories, shape)
    )


def terms_of(tables: Tables, memories: FromClause) -> ColumnElement[Any]:
    """Return the terms of a memory as the index has them."""
    names = ("namespace", "language", "content", "created_at")
    call = lexical_terms(tables, *(memories.c[name] for name in names))
    return call.op("COLLATE", return_type=ARRAY(Text))(literal_column('"C"'))


def place_of(memories: FromClause) -> ColumnElement[int]:
    """Return the place of a memory, or a number of its own, below zero, where it has no thread."""
    return func.coalesce(memories.c.place, -memories.c.seq * number(APART))


def _hits(tables: Tables, asked: CTE, name: str, *, capped: bool) -> CTE:
    """Every memory that holds a word, once for each word; with ``capped`` not all that hold a very frequent one."""
    memories = tables.memories.alias("m")
    # OFFSET keeps this a scan of the index for each word; joined freely, the planner may compute terms of all rows. The
    # terms bear the mark of the namespace: with another index for it as well, all its memories would be read each time.
    found = (
        select(memories.c.seq, place_of(memories).label("place"))
        .where(
            terms_of(tables, memories).op("&&", is_comparison=True)(asked.c.terms),
            seen(memories, by_index=False),
        )
        .limit(number(_MOST_HITS) if capped else None)
        .offset(number(0))
        .lateral("found")
    )
    return (
        select(asked.c.g, found.c.seq, found.c.place)
        .select_from(asked.join(found, true()))
        .cte(name)
        .prefix_with("MATERIALIZED")
    )


def _weights(tables: Tables, asked: CTE, of_thread: CTE, near: CTE | None) -> CTE:
    """The weight of each word, also of one that no memory holds, and whether its hits say where to look closely.

    ``weight`` is what it counts where it is found, ``whole`` what it would if it was not replaced by another.
    """
    memories = tables.memories
    some = (
        select(number(1)).where(memories.c.namespace == text_parameter("namespace")).limit(number(_COUNTED))
    )
    total = select(func.count()).select_from(some.subquery("some")).scalar_subquery()
    of_word = (
        select(
            of_thread.c.g,
            func.sum(of_thread.c.holding).label("holding"),
            func.count(of_thread.c.thread).label("threads"),
        )
        .group_by(of_thread.c.g)
        .subquery("of_word")
    )
    threads = select(of_thread.c.thread).where(of_thread.c.thread.is_not(None)).distinct().subquery("threads")
    counted = (
        select(
            asked.c.g,
            cast(func.coalesce(of_word.c.holding, number(0)), Double).label("holding"),
            cast(func.coalesce(of_word.c.threads, number(0)), Double).label("threads"),
            cast(func.greatest(total, func.max(of_word.c.holding).over()), Double).label("memories"),
            select(cast(func.count(), Double)).select_from(threads).scalar_subquery().label("all_threads"),
        )
        .select_from(asked.outerjoin(of_word, asked.c.g == of_word.c.g))
        .subquery("counted")
    )
    of_threads = float_parameter("thread_rarity") * _rarity(counted.c.all_threads, counted.c.threads)
    weight = _rarity(counted.c.memories, counted.c.holding) + case(
        (counted.c.all_threads > number(0), of_threads), else_=number(0)
    )
    rarest = (counted.c.holding, counted.c.g)
    held = case((counted.c.holding > number(0), number(1)), else_=number(0))
    hits_so_far = func.sum(counted.c.holding).over(order_by=rarest)
    leading = or_(
        hits_so_far <= number(_LEADING_HITS),
        func.sum(held).over(order_by=rarest) <= number(2),
        hits_so_far - counted.c.holding < number_parameter("blocks"),
    )
    counts: ColumnElement[Any] = weight
    if near is not None:
        of_misspelt = select(number(1)).where(near.c.g == counted.c.g).exists()
        counts = weight * case((of_misspelt, float_parameter("typos")), else_=number(1))
    return (
        select(counted.c.g, counts.label("weight"), weight.label("whole"), leading.label("leading"))
        .cte("weights")
        .prefix_with("MATERIALIZED")
    )


def _counted_by_thread(hits: CTE, name: str) -> CTE:
    thread = case((hits.c.place > number(0), hits.c.place.op(">>")(number(_THREAD_BITS)))).label("thread")
    return select(hits.c.g, thread, func.count().label("holding")).group_by(hits.c.g, thread).cte(name)


def _rarity(total: ColumnElement[Any], holding: ColumnElement[Any]) -> ColumnElement[float]:
    half: ColumnElement[float] = literal_column("0.5::double precision", Double)
    return func.ln(number(1) + divided(total - holding + half, holding + half), type_=Double)


def _block(place: ColumnElement[Any]) -> ColumnElement[int]:
    return place.op(">>", return_type=BigInteger())(number(_BLOCK_BITS))


def _best_blocks(hits: CTE, weights: CTE) -> CTE:
    words = (
        select(_block(hits.c.place).label("block"), func.max(weights.c.weight).label("weight"))
        .select_from(hits.join(weights, and_(hits.c.g == weights.c.g, weights.c.leading)))
        .group_by(_block(hits.c.place), hits.c.g)
        .subquery("words_of_blocks")
    )
    blocks = (
        select(words.c.block, func.sum(words.c.weight).label("weight"))
        .group_by(words.c.block)
        .subquery("blocks")
    )
    around = _offsets("around")
    block = blocks.c.block + around.c.step
    return (
        select(block.label("block"))
        .select_from(blocks.join(around, true()))
        .group_by(block)
        .order_by(func.sum(blocks.c.weight).desc(), func.abs(block))
        .limit(number_parameter("blocks"))
        .cte("best_blocks")
        .prefix_with("MATERIALIZED")
    )


def _near(tables: Tables, hits: CTE, blocks: CTE | None) -> CTE:
    """The hits that count for the blocks, each with whether its memory is a question."""
    chosen: Select[Any] = select(hits.c.g, hits.c.seq, hits.c.place)
    if blocks is not None:
        around = _offsets("around")
        near = (
            select((blocks.c.block + around.c.step).label("block"))
            .distinct()
            .select_from(blocks.join(around, true()))
            .subquery("near_blocks")
        )
        chosen = chosen.select_from(hits.join(near, _block(hits.c.place) == near.c.block))
    picked = chosen.cte("picked")
    memories = tables.memories.alias("holder")
    asks = (
        select(is_question(memories).label("asks"))
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == picked.c.seq)
        .offset(number(0))
        .lateral("holder_of")
    )
    return select(picked.c.g, picked.c.place, asks.c.asks).select_from(picked.join(asks, true())).cte("near")


def is_question(memories: FromClause) -> ColumnElement[bool]:
    """Say whether a memory ends with a question mark, of any script. A regular expression would take much longer."""
    end = func.right(func.rtrim(memories.c.content, literal_column("E' \\t\\r\\n'")), number(1))
    return end.in_([literal_column(mark) for mark in ("'?'", "E'\\uFF1F'", "E'\\u061F'")])


def _offsets(name: str) -> Any:
    """Return a block and the two beside it, as steps."""
    steps = func.unnest(literal_column("ARRAY[-1, 0, 1]::bigint[]"))
    return steps.table_valued(column("step", BigInteger), name=name).render_derived()


def _scored(near: CTE, weights: CTE, blocks: CTE | None) -> CTE:
    """Sum up, for each place, the words there and around it, each at the nearest."""
    window: Lateral | Any = (
        func.unnest(numbers_parameter("distances"), floats_parameter("nearness"))
        .table_valued(column("distance", BigInteger), column("share", Double), name="window")
        .render_derived()
    )
    share = case(
        (
            and_(near.c.asks, window.c.distance == number(1)),
            func.greatest(window.c.share, float_parameter("answer")),
        ),
        else_=window.c.share,
    )
    place = near.c.place + window.c.distance
    words = (
        select(
            near.c.g,
            place.label("place"),
            func.max(share).label("share"),
            func.max(case((window.c.distance == number(0), number(1)), else_=number(0))).label("own"),
        )
        .select_from(near.join(window, true()))
        .group_by(near.c.g, place)
        .subquery("words_of_places")
    )
    base = words.join(weights, words.c.g == weights.c.g)
    if blocks is not None:
        base = base.join(blocks, blocks.c.block == _block(words.c.place))
    return (
        select(
            words.c.place,
            func.sum(words.c.share * weights.c.weight).label("score"),
            func.sum(words.c.own * weights.c.weight).label("own"),
        )
        .select_from(base)
        .group_by(words.c.place)
        .cte("scored")
    )
