"""Statements on the language of a namespace."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import Insert, insert

from .calls import lexical_terms
from .parameters import number_parameter, text_parameter
from .repeating import repeatable
from .schema import Tables
from .write_tokens import marked


def check_language(tables: Tables) -> Select[Any]:
    """Use a configuration on nothing; the database raises an error if it has none of that name."""
    nothing: ColumnElement[str] = literal_column("''")
    return select(
        lexical_terms(
            tables,
            text_parameter("namespace"),
            text_parameter("language"),
            nothing,
            func.statement_timestamp(),
        )
    )


@repeatable
def choose_language(tables: Tables) -> Insert:
    """Set the language that new memories of a namespace get."""
    settings = tables.namespace_settings
    statement = insert(settings).values(
        namespace=text_parameter("namespace"), language=text_parameter("language")
    )
    return statement.on_conflict_do_update(
        index_elements=[settings.c.namespace], set_={"language": statement.excluded.language}
    )


def change_languages(tables: Tables) -> Select[Any]:
    """Give the language to some memories that have another, in the common order of locks; return how many."""
    memories = tables.memories
    other = (
        select(memories.c.seq)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.language != text_parameter("language"),
        )
        .order_by(memories.c.seq)
        .limit(number_parameter("limit"))
        .with_for_update(key_share=True)
        .cte("other")
    )
    changed = (
        update(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == other.c.seq)
        .values(language=text_parameter("language"))
        .returning(memories.c.seq)
        .cte("changed")
    )
    return select(func.count().label("count")).select_from(changed).add_cte(marked(tables, changed))
