"""The words of a query as the statement of `recall` has them: each with the terms that stand for it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Integer,
    TableValuedAlias,
    Text,
    case,
    column,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, array

from .calls import lexical_terms
from .parameters import booleans_parameter, numbers_parameter, text_parameter, texts_parameter
from .places import language_of_namespace
from .schema import Tables
from .term_functions import DATE_TERMS, MARK_LENGTH

#: The date that a query is said to have, of which nothing is used.
EPOCH: ColumnElement[Any] = literal_column("'2000-01-01 00:00:00+00'::timestamptz")


def given_words(name: str) -> TableValuedAlias:
    """Return the query's spellings: each ``word``, the number ``g`` of what it stands for, whether it is a term."""
    return (
        func.unnest(texts_parameter("words"), numbers_parameter("groups"), booleans_parameter("ready"))
        .table_valued(column("word", Text), column("g", BigInteger), column("ready", Boolean), name=name)
        .render_derived()
    )


def terms_of_word(
    tables: Tables, language: ColumnElement[Any], word: ColumnElement[Any]
) -> ColumnElement[Any]:
    """Return the terms of a word or a text, without those of a date."""
    terms = lexical_terms(tables, text_parameter("namespace"), language, word, EPOCH)
    return func.trim_array(terms, _number(DATE_TERMS), type_=ARRAY(Text()))


def asked_words(tables: Tables) -> CTE:
    """The terms of each word of the query; words of the same terms are one."""
    language = select(language_of_namespace(tables)).scalar_subquery()
    empty = lexical_terms(
        tables, text_parameter("namespace"), literal_column("'simple'"), literal_column("''"), EPOCH
    )
    said = (
        select(
            language.label("language"),
            func.left(func.array_to_string(empty, literal_column("''")), _number(MARK_LENGTH)).label("mark"),
        )
        .cte("said")
        .prefix_with("MATERIALIZED")
    )
    given = given_words("given")
    spelt: ColumnElement[Any] = case(
        (given.c.ready, array([said.c.mark + given.c.word])),
        else_=terms_of_word(tables, said.c.language, given.c.word),
    )
    term = func.unnest(spelt).table_valued(column("term", Text), name="spelt").render_derived()
    words = (
        select(given.c.g, func.array_agg(term.c.term.distinct()).label("terms"))
        .select_from(given.join(said, true()).join(term, true()))
        .group_by(given.c.g)
        .subquery("words")
    )
    return select(func.min(words.c.g).label("g"), words.c.terms).group_by(words.c.terms).cte("asked")


def _number(value: int) -> ColumnElement[int]:
    return literal_column(str(value), Integer)
