"""Which memories hold the words of a query: all that hold a rare word, and of those of a frequent one what matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Integer,
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
from .parameters import text_parameter, time_parameter
from .places import FIRST, LAST_OF_ALL
from .predicates import Shape, predicate
from .schema import Tables

#: Memories without a thread stand this far apart, so that they are nobody's neighbours.
APART = 64
#: So many memories are counted to tell how many there are; how many more there are is told by their numbers.
_COUNTED = 10_000
#: So many hits of a word are read where only the most promising places count: a word that more memories hold weighs
#: next to nothing. Fewer are where there are ``MANY`` memories: there, more are read only with rarer words.
_MOST_HITS, _MOST_HITS_OF_MANY, MANY = 15_000, 2_000, 200_000
#: As many memories that match a filter are all looked at closely.
FEW = 2_000


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


def matching_places(tables: Tables, shape: Shape, few: int = FEW) -> Matching:
    memories = tables.memories.alias("matching_memory")
    places = (
        select(place_of(memories).label("place"), memories.c.seq)
        .where(seen(memories), predicate(memories, shape))
        .limit(number(few + 1))
        .cte("matching")
        .prefix_with("MATERIALIZED")
    )
    # Materialized, since it is asked for at several places, and counting takes as long as the reading.
    counted = (
        select((func.count() <= number(few)).label("few"))
        .select_from(places)
        .cte("counted_matching")
        .prefix_with("MATERIALIZED")
    )
    return Matching(places, select(counted.c.few).scalar_subquery())


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
    """Return the place of a memory, or a number of its own, below zero, where it has no thread.

    A place that no thread has comes from SQL of somebody's own, and must not end the recalls of others: it counts for
    none, and what is a few places away from any other still fits a bigint.
    """
    within = memories.c.place.between(number(FIRST), literal_column(str(LAST_OF_ALL)))
    return case((within, memories.c.place), else_=-memories.c.seq * number(APART))


def size_of_namespace(tables: Tables) -> CTE:
    """How many memories the namespace has, ``counted`` or told by their numbers, and from which number to which."""
    memories = tables.numbers
    mine = memories.c.namespace == text_parameter("namespace")
    some = (
        select(memories.c.seq).where(mine).order_by(memories.c.seq).limit(number(_COUNTED)).subquery("some")
    )
    last = select(func.max(memories.c.seq)).where(mine).scalar_subquery()
    span = (
        select(
            func.count().label("counted"),
            func.min(some.c.seq).label("first"),
            func.max(some.c.seq).label("reached"),
            last.label("last"),
        )
        .select_from(some)
        .subquery("span")
    )
    told = divided(
        cast(span.c.last - span.c.first + number(1), Double), span.c.reached - span.c.first + number(1)
    )
    total = case((span.c.counted < number(_COUNTED), span.c.counted), else_=span.c.counted * told)
    return select(span, cast(total, Double).label("total")).cte("size").prefix_with("MATERIALIZED")


@dataclass(frozen=True, slots=True)
class WordHits:
    """``rows``: word, number and place of memories; ``first``: those that were found by the word alone, as arrays.

    ``more`` are the others of ``rows``. ``asked`` has the words and their terms, those of the known words ``near`` to a
    misspelt one in place of its own, if there are such. ``counts`` says of each word how many hold it, how many of the
    first were read, and whether that is not all.
    """

    rows: CTE
    first: CTE
    more: CTE | None
    counts: CTE
    asked: CTE
    near: CTE | None


def word_hits(tables: Tables, size: CTE, *, capped: bool, matching: Matching | None, typos: bool) -> WordHits:
    """Every memory that holds a word, once for each word; with ``capped`` not all that hold a very frequent one.

    Of such a word those are read as well that hold a rarer one beside it, or match a filter if those are ``few``. With
    ``typos`` a word that no memory holds is replaced by the known word nearest to it.
    """
    most = case(
        (size.c.total < number(MANY), number(_MOST_HITS)),
        else_=number(min(_MOST_HITS, _MOST_HITS_OF_MANY)),
    )
    cap = select(most).select_from(size).scalar_subquery()
    asked, near = asked_words(tables), None
    first = _first_hits(tables, asked, cap if capped else None, "hits_of_words")
    if typos:
        near = nearest_words(tables, asked, first)
        instead = terms_of_nearest(tables, near)
        of_nearest = _first_hits(tables, instead, cap if capped else None, "hits_of_nearest")
        first = union_all(select(first), select(of_nearest)).cte("hits_of_words_and_nearest")
        replaced: Select[Any] = select(number(1)).where(near.c.g == asked.c.g)
        asked = union_all(select(asked).where(~replaced.exists()), select(instead)).cte("asked_of_all")
    counts = _counts(first, size, cap, capped=capped)
    more: CTE | None = None
    if capped:
        others: list[Select[Any]] = [select(_beside_rarer(tables, asked, counts))]
        if matching is not None:
            others.append(_among_few(tables, asked, counts, matching))
        more = union_all(*others).cte("more_hits").prefix_with("MATERIALIZED")
    each = select(
        first.c.g, func.unnest(first.c.seqs).label("seq"), func.unnest(first.c.places).label("place")
    )
    # Not kept: to take the arrays apart again takes less than to write and read a row for each.
    rows = (
        (each if more is None else union_all(each, select(more))).cte("hits").prefix_with("NOT MATERIALIZED")
    )
    return WordHits(rows, first, more, counts, asked, near)


def _first_hits(tables: Tables, asked: CTE, cap: ColumnElement[Any] | None, name: str) -> CTE:
    """The memories that hold each word: their numbers and places, how many were read, and up to which number.

    As two arrays for a word, since a row for each hit is what most of the time would go into.
    """
    # OFFSET keeps this a scan of the index for each word; joined freely, the planner may compute terms of all rows. The
    # terms bear the mark of the namespace: with another index for it as well, all its memories would be read each time.
    found = (
        _holding(tables, "m", asked.c.terms).limit(cap).offset(number(0)).correlate(asked).lateral("found")
    )
    of_word = select(
        func.array_agg(found.c.seq).label("seqs"),
        func.array_agg(found.c.place).label("places"),
        func.count().label("read"),
        func.max(found.c.seq).label("reached"),
    ).lateral("of_word")
    return (
        select(asked.c.g, *of_word.c)
        .select_from(asked.join(of_word, true()))
        .where(of_word.c.read > number(0))
        .cte(name)
        .prefix_with("MATERIALIZED")
    )


def _holding(tables: Tables, name: str, terms: ColumnElement[Any], *also: ColumnElement[Any]) -> Select[Any]:
    """The memories that hold one of ``terms``, and one of each of ``also``."""
    memories = tables.memories.alias(name)
    held = terms_of(tables, memories)
    return select(memories.c.seq, place_of(memories).label("place")).where(
        *(held.op("&&", is_comparison=True)(some) for some in (terms, *also)), seen(memories, by_index=False)
    )


def _counts(counted: CTE, size: CTE, cap: ColumnElement[Any], *, capped: bool) -> CTE:
    """How many memories hold a word: told by how soon so many were found, since it is in the order of insertion."""
    read_of = divided(
        cast(counted.c.reached - size.c.first + number(1), Double), size.c.last - size.c.first + number(1)
    )
    frequent = and_(literal_column("true" if capped else "false"), counted.c.read >= cap)
    holding = case(
        (frequent, func.least(divided(counted.c.read, func.least(read_of, number(1))), size.c.total)),
        else_=counted.c.read,
    )
    return (
        select(
            counted.c.g, counted.c.read, cast(holding, Double).label("holding"), frequent.label("frequent")
        )
        .select_from(counted.join(size, true()))
        .cte("counts")
        .prefix_with("MATERIALIZED")
    )


def _beside_rarer(tables: Tables, asked: CTE, counts: CTE) -> CTE:
    """The memories that hold a frequent word and one that is not, or the rarest: the index finds those of both."""
    least = select(func.min(counts.c.holding)).scalar_subquery()
    rarer = asked.join(
        counts, and_(asked.c.g == counts.c.g, or_(~counts.c.frequent, counts.c.holding == least))
    )
    term = func.unnest(asked.c.terms).table_valued(column("term", Text), name="rare").render_derived()
    terms = func.array(select(term.c.term).select_from(rarer.join(term, true())).scalar_subquery())
    frequent = asked.alias("frequent_word")
    beside = (
        _holding(tables, "beside", frequent.c.terms, cast(terms, ARRAY(Text)))
        .limit(number(_MOST_HITS))
        .offset(number(0))
        .lateral("found_beside")
    )
    return (
        select(frequent.c.g, beside.c.seq, beside.c.place)
        .select_from(
            frequent.join(counts, and_(frequent.c.g == counts.c.g, counts.c.frequent)).join(beside, true())
        )
        .cte("hits_beside")
    )


def _among_few(tables: Tables, asked: CTE, counts: CTE, matching: Matching) -> Select[Any]:
    """The few memories that match a filter and hold a frequent word: their terms are computed."""
    memories = tables.memories.alias("one_of_few")
    frequent: Select[Any] = select(number(1)).where(counts.c.frequent)
    terms = (
        select(terms_of(tables, memories).label("terms"))
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == matching.places.c.seq)
        .offset(number(0))
        .lateral("terms_of_few")
    )
    held = (
        select(matching.places.c.seq, matching.places.c.place, terms.c.terms)
        .select_from(matching.places.join(terms, true()))
        .where(matching.few, frequent.exists())
        .cte("few_terms")
        .prefix_with("MATERIALIZED")
    )
    return select(asked.c.g, held.c.seq, held.c.place).select_from(
        asked.join(counts, and_(asked.c.g == counts.c.g, counts.c.frequent)).join(
            held, held.c.terms.op("&&", is_comparison=True)(asked.c.terms)
        )
    )
