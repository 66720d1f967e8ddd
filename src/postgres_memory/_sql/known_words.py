"""The words that a namespace is known to hold: counting them anew, and finding those nearest to a misspelt one.

They are counted when asked to, so they lag behind the memories. Nothing but the replacing of misspelt words reads them:
a word that is new is found without, and one that no memory holds any more leads to nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Delete,
    FromClause,
    Select,
    Text,
    column,
    delete,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by, insert

from .asked import given_words, terms_of_word
from .calls import similarity
from .parameters import text_parameter
from .places import language_of_namespace
from .repeating import repeatable
from .schema import Tables
from .term_functions import MARK_LENGTH

#: So similar a known word must be to replace another one, by the share of their trigrams that both have. The nearest
#: alone does: with two or three, less was found.
LEAST_SIMILARITY = 0.3
#: A word of fewer letters has too many others near it, one of more is none.
_SHORTEST, _LONGEST = 4, 40
#: Words that differ more in their lengths are not compared, nor are those that begin with neither the first nor the
#: second letter of a misspelt one: to compare all would take some thirty times as long.
_LENGTHS = 2

#: Words are compared as they are written. Stems were tried, and led to the right word less often.
_AS_WRITTEN = literal_column("'simple'", Text)
_WORD = f"'^[^[:space:][:punct:][:digit:]]{{{_SHORTEST - 1},{_LONGEST}}}$'"


def _number(value: int) -> ColumnElement[int]:
    return literal_column(str(value))


def _in_namespace(known: FromClause) -> ColumnElement[bool]:
    return known.c.namespace == text_parameter("namespace")


def _unmarked(term: ColumnElement[Any]) -> ColumnElement[str]:
    return func.substr(term, _number(MARK_LENGTH + 1), type_=Text())


@repeatable
def refresh_known_words(tables: Tables) -> Select[Any]:
    """Count the words of the active memories; return how many there are, how many are new and how many are gone."""
    memories, known = tables.memories, tables.known_words
    term = (
        func.unnest(terms_of_word(tables, _AS_WRITTEN, memories.c.content))
        .table_valued(column("term", Text), name="spelt")
        .render_derived()
    )
    word = _unmarked(term.c.term).op("COLLATE", return_type=Text())(literal_column('"C"'))
    counted = (
        select(word.label("word"), func.count(memories.c.seq.distinct()).label("memories"))
        .select_from(memories.join(term, true()))
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.status == literal_column("'active'"),
            word.op("~", is_comparison=True)(literal_column(_WORD)),
        )
        .group_by(word)
        .cte("counted")
        .prefix_with("MATERIALIZED")
    )
    still: Select[Any] = select(_number(1)).where(counted.c.word == known.c.word)
    gone = _forget(tables, ~still.exists()).returning(known.c.word).cte("gone")
    ordered = select(text_parameter("namespace"), counted.c.word, counted.c.memories).order_by(counted.c.word)
    writing = insert(known).from_select(["namespace", "word", "memories"], ordered)
    written = (
        writing.on_conflict_do_update(
            index_elements=[known.c.namespace, known.c.word],
            set_={"memories": writing.excluded.memories},
            where=known.c.memories != writing.excluded.memories,
        )
        .returning(known.c.word)
        .cte("written")
    )
    before = known.alias("before")
    was_known: Select[Any] = select(_number(1)).where(_in_namespace(before), before.c.word == counted.c.word)
    return (
        select(
            func.count().label("words"),
            func.count().filter(~was_known.exists()).label("added"),
            select(func.count()).select_from(gone).scalar_subquery().label("gone"),
        )
        .select_from(counted)
        .add_cte(written)
    )


def forget_known_words(tables: Tables) -> Delete:
    """Delete the known words of a namespace."""
    return _forget(tables, true())


def _forget(tables: Tables, condition: ColumnElement[bool]) -> Delete:
    known = tables.known_words
    locked = (
        select(known.c.word)
        .where(_in_namespace(known), condition)
        .order_by(known.c.word)
        .with_for_update()
        .cte("forgotten")
    )
    return delete(known).where(_in_namespace(known), known.c.word == locked.c.word)


def nearest_words(tables: Tables, asked: CTE, held: CTE) -> CTE:
    """The known word nearest to each word of the query that no memory holds: ``g``, ``word``, ``known``.

    ``held`` has the words ``g`` that some memory holds.
    """
    unknown = _unknown_words(tables, asked, held)
    known = tables.known_words
    letter = (
        func.unnest(
            func.array_remove(
                literal_column(
                    "ARRAY[left(unknown.word, 1), nullif(substr(unknown.word, 2, 1), left(unknown.word, 1))]"
                ),
                literal_column("NULL"),
            )
        )
        .table_valued(column("letter", Text), name="beginning")
        .render_derived()
    )
    alike = similarity(tables, known.c.word, unknown.c.word)
    length = func.char_length(unknown.c.word)
    beginning = letter.c.letter.op("COLLATE", return_type=Text())(literal_column('"C"'))
    near = (
        select(known.c.word, alike.label("alike"), known.c.memories)
        .select_from(letter.join(known, true()))
        .where(
            _in_namespace(known),
            known.c.word >= beginning,
            known.c.word < beginning.concat(literal_column("E'\\U0010FFFF'")),
            func.char_length(known.c.word).between(length - _number(_LENGTHS), length + _number(_LENGTHS)),
            alike >= literal_column(str(LEAST_SIMILARITY)),
        )
        .order_by(alike.desc(), known.c.memories.desc(), known.c.word)
        .limit(_number(1))
        .lateral("near")
    )
    return (
        select(unknown.c.g, unknown.c.word, near.c.word.label("known"))
        .select_from(unknown.join(near, true()))
        .cte("nearest_words")
        .prefix_with("MATERIALIZED")
    )


def _unknown_words(tables: Tables, asked: CTE, held: CTE) -> CTE:
    given = given_words("misspelt")
    spelt = (
        func.unnest(terms_of_word(tables, _AS_WRITTEN, given.c.word))
        .table_valued(column("term", Text), name="misspelt_term")
        .render_derived()
    )
    holding: Select[Any] = select(_number(1)).where(held.c.g == given.c.g)
    word = _unmarked(spelt.c.term)
    return (
        select(given.c.g, word.label("word"))
        .select_from(given.join(asked, asked.c.g == given.c.g).join(spelt, true()))
        .where(
            ~given.c.ready,
            ~holding.exists(),
            word.op("~", is_comparison=True)(literal_column(_WORD)),
            func.char_length(word) >= _number(_SHORTEST),
        )
        .cte("unknown")
        .prefix_with("MATERIALIZED")
    )


def terms_of_nearest(tables: Tables, near: CTE) -> CTE:
    """The terms of the known words that stand for each word of the query, as `asked_words` has those of its own."""
    language = select(language_of_namespace(tables)).scalar_subquery()
    term = (
        func.unnest(terms_of_word(tables, language, near.c.known))
        .table_valued(column("term", Text), name="known_term")
        .render_derived()
    )
    return (
        select(near.c.g, func.array_agg(term.c.term.distinct()).label("terms"))
        .select_from(near.join(term, true()))
        .group_by(near.c.g)
        .cte("asked_instead")
        .prefix_with("MATERIALIZED")
    )


def replacements(near: CTE) -> list[ColumnElement[Any]]:
    """Return the words that were replaced and those that replaced them, as two arrays."""
    # A subquery, since an aggregate of the columns of a CTE itself keeps that CTE when a statement is copied.
    pairs = select(near.c.g, near.c.word, near.c.known).subquery("replaced")
    order = (pairs.c.g, pairs.c.word)
    arrays = (
        func.array_agg(aggregate_order_by(pairs.c[name], *order), type_=ARRAY(Text()))
        for name in ("word", "known")
    )
    names = ("misspelt", "nearest")
    return [select(array).scalar_subquery().label(name) for array, name in zip(arrays, names, strict=True)]
