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
    Lateral,
    Select,
    SelectBase,
    Subquery,
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

from .parameters import (
    float_parameter,
    floats_parameter,
    number_parameter,
    numbers_parameter,
    text_parameter,
)
from .predicates import Shape, predicate
from .schema import Tables
from .word_hits import (
    APART,
    MANY,
    Matching,
    WordHits,
    divided,
    matching_places,
    number,
    seen,
    size_of_namespace,
    word_hits,
)

#: Places are looked at in blocks of four. What is near a place is in its block or the two beside it.
_BLOCK_BITS = 2
#: Where all match, the rarest words lead to the places: as many as have so many hits together, two at least, and enough
#: of them to fill the places. Of ``MANY`` memories, or with a filter, all words do.
_LEADING_HITS = 1_000
#: Where all match, this part of them will do.
_LESS = 4
#: What ends a question, in UTF-8 behind ``%``: ``?``, that of full width, and the Arabic one.
_QUESTION_ENDS = ",".join(rf"'\x25{mark.encode().hex()}'" for mark in "?\uff1f\u061f")
#: The places of one thread share all but these bits.
_THREAD_BITS = 24


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
    ``shape``, if they are few; else the most promising ones that hold one which matches, by a bound that counts each
    word in a block and in its two neighbours in full.

    With ``typos`` a word that no memory holds is replaced by the known words nearest to it.
    """
    size = size_of_namespace(tables)
    matching = None if shape is None or not pruned else matching_places(tables, shape)
    hits = word_hits(tables, size, capped=pruned, matching=matching, typos=typos)
    weights = _weights(size, hits)
    if not pruned:
        scored = _scored(_near(tables, hits.rows, None), weights, None)
        return LexicalLeg(hits.rows, weights, scored, true(), near=hits.near)
    promising = _promising(hits, weights, all_words=shape is not None)
    complete: ColumnElement[bool] = and_(
        ~select(func.bool_or(hits.counts.c.frequent)).scalar_subquery(),
        select(func.bool_and(weights.c.leading)).scalar_subquery(),
    )
    if matching is None or shape is None:
        blocks = promising.limit(_blocks_of(size)).cte("best_blocks").prefix_with("MATERIALIZED")
    else:
        best = _that_match(tables, promising.subquery("promising"), shape).subquery("best_blocks")
        of_few = select(_block(matching.places.c.place).label("block")).where(matching.few).distinct()
        blocks = union_all(of_few, select(best.c.block).where(~matching.few)).cte("blocks_with_filter")
        complete = matching.few
    scored = _scored(_near(tables, hits.rows, blocks), weights, blocks)
    return LexicalLeg(hits.rows, weights, scored, complete, matching, hits.near)


def _blocks_of(size: CTE) -> ColumnElement[int]:
    """How many blocks are looked at where all match: of fewer than ``MANY`` memories less, which was as good."""
    blocks = number_parameter("blocks")
    least = case((size.c.total < number(MANY), divided(blocks, number(_LESS))), else_=blocks)
    return select(least).select_from(size).scalar_subquery()


def _weights(size: CTE, hits: WordHits) -> CTE:
    """The weight of each word, also of one that no memory holds.

    ``weight`` is what it counts where it is found, ``whole`` what it would if it was not replaced by another.
    """
    asked = hits.asked
    of_thread = _counted_by_thread(hits.first)
    of_word = (
        select(of_thread.c.g, func.count(of_thread.c.thread).label("threads"))
        .group_by(of_thread.c.g)
        .subquery("of_word")
    )
    threads = select(of_thread.c.thread).where(of_thread.c.thread.is_not(None)).distinct().subquery("threads")
    all_threads = select(cast(func.count(), Double)).select_from(threads).scalar_subquery()
    counts = hits.counts
    in_threads = divided(of_word.c.threads * counts.c.holding, counts.c.read)
    total = select(size.c.total).scalar_subquery()
    counted = (
        select(
            asked.c.g,
            cast(func.coalesce(counts.c.holding, number(0)), Double).label("holding"),
            func.least(cast(func.coalesce(in_threads, number(0)), Double), all_threads).label("threads"),
            cast(func.greatest(total, func.max(counts.c.holding).over()), Double).label("memories"),
            all_threads.label("all_threads"),
        )
        .select_from(
            asked.outerjoin(counts, asked.c.g == counts.c.g).outerjoin(of_word, asked.c.g == of_word.c.g)
        )
        .subquery("counted")
    )
    of_threads = float_parameter("thread_rarity") * _rarity(counted.c.all_threads, counted.c.threads)
    weight = _rarity(counted.c.memories, counted.c.holding) + case(
        (counted.c.all_threads > number(0), of_threads), else_=number(0)
    )
    counts_as: ColumnElement[Any] = weight
    if hits.near is not None:
        of_misspelt = select(number(1)).where(hits.near.c.g == counted.c.g).exists()
        counts_as = weight * case((of_misspelt, float_parameter("typos")), else_=number(1))
    rarest = (counted.c.holding, counted.c.g)
    held = case((counted.c.holding > number(0), number(1)), else_=number(0))
    hits_so_far = func.sum(counted.c.holding).over(order_by=rarest)
    leading = or_(
        hits_so_far <= number(_LEADING_HITS),
        func.sum(held).over(order_by=rarest) <= number(2),
        hits_so_far - counted.c.holding < divided(number_parameter("blocks"), number(_LESS)),
        select(size.c.total >= number(MANY)).scalar_subquery(),
    )
    return (
        select(counted.c.g, counts_as.label("weight"), weight.label("whole"), leading.label("leading"))
        .cte("weights")
        .prefix_with("MATERIALIZED")
    )


def _counted_by_thread(hits: CTE) -> CTE:
    each = select(hits.c.g, func.unnest(hits.c.places).label("place")).subquery("place_of_hit")
    thread = case((each.c.place > number(0), each.c.place.op(">>")(number(_THREAD_BITS)))).label("thread")
    return select(each.c.g, thread).group_by(each.c.g, thread).cte("of_thread")


def _rarity(total: ColumnElement[Any], holding: ColumnElement[Any]) -> ColumnElement[float]:
    half: ColumnElement[float] = literal_column("0.5::double precision", Double)
    return func.ln(number(1) + divided(total - holding + half, holding + half), type_=Double)


def _block(place: ColumnElement[Any]) -> ColumnElement[int]:
    return place.op(">>", return_type=BigInteger())(number(_BLOCK_BITS))


def _promising(hits: WordHits, weights: CTE, *, all_words: bool) -> Select[Any]:
    """The blocks that hold a word, or one of the leading words, or stand beside one that does, most promising first."""

    def counting(found: CTE) -> ColumnElement[bool]:
        return found.c.g == weights.c.g if all_words else and_(found.c.g == weights.c.g, weights.c.leading)

    first, more = hits.first, hits.more
    places: SelectBase = select(
        first.c.g, weights.c.weight, func.unnest(first.c.places).label("place")
    ).select_from(first.join(weights, counting(first)))
    if more is not None:
        others = select(more.c.g, weights.c.weight, more.c.place)
        places = union_all(places, others.select_from(more.join(weights, counting(more))))
    each = places.subquery("places_of_words")
    words = (
        select(_block(each.c.place).label("block"), func.max(each.c.weight).label("weight"))
        .group_by(_block(each.c.place), each.c.g)
        .subquery("words_of_blocks")
    )
    blocks = (
        select(words.c.block, func.sum(words.c.weight).label("weight"))
        .group_by(words.c.block)
        .subquery("blocks")
    )
    around = _offsets("around")
    block = blocks.c.block + around.c.step
    # Words of neighbours count half at the most, but for the answer to a question.
    counted = case((around.c.step == number(0), blocks.c.weight), else_=divided(blocks.c.weight, number(2)))
    return (
        select(block.label("block"), func.sum(counted).label("weight"))
        .select_from(blocks.join(around, true()))
        .group_by(block)
        .order_by(func.sum(counted).desc(), func.abs(block))
    )


def _that_match(tables: Tables, promising: Subquery, shape: Shape) -> Select[Any]:
    """The first of the promising blocks that hold a memory which matches, looked at until there are enough."""
    threaded, single = tables.memories.alias("block_threaded"), tables.memories.alias("block_single")
    first = promising.c.block * number(1 << _BLOCK_BITS)
    alone = APART >> _BLOCK_BITS
    holds = (
        union_all(
            select(number(1).label("one")).where(
                threaded.c.place.between(first, first + number((1 << _BLOCK_BITS) - 1)),
                seen(threaded),
                predicate(threaded, shape),
            ),
            select(number(1).label("one")).where(
                promising.c.block < number(0),
                promising.c.block.op("%", precedence=8)(number(alone)) == number(0),
                single.c.seq == divided(-promising.c.block, number(alone)),
                single.c.place.is_(None),
                seen(single),
                predicate(single, shape),
            ),
        )
        .limit(number(1))
        .lateral("holds")
    )
    return (
        select(promising.c.block)
        .select_from(promising.join(holds, true()))
        .order_by(promising.c.weight.desc(), func.abs(promising.c.block))
        .limit(number_parameter("blocks"))
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
    """Say whether a memory ends with a question mark, of any script.

    The bytes of UTF-8 are looked at: to trim and compare text, each of its letters is measured, and takes three times
    as long.
    """
    trimmed = func.rtrim(
        func.convert_to(memories.c.content, literal_column("'UTF8'")), literal_column("'\\x20090d0a'::bytea")
    )
    # One comparison with all of them: several would read a long content from where it lies apart as often.
    return trimmed.op("LIKE", is_comparison=True)(
        func.any(literal_column(f"ARRAY[{_QUESTION_ENDS}]::bytea[]"))
    )


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
