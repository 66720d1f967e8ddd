"""Places: where a memory stands in its thread, as one number, so that nearness in a thread is nearness in number.

A thread's places begin at a hash of its name and count up in insertion order. They are given without a lock: two
memories added to one thread at the same moment may share a place, and a deleted memory leaves its place empty; both
are still neighbours of the same memories. A memory without a thread has no place.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, func, literal_column, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from .calls import thread_place
from .changes import unless_fed
from .parameters import text_parameter
from .schema import Tables

#: Room before the first place of a thread, and behind the last, so that what looks a few places away stays inside.
FIRST = 16
LAST = 2**24 - 17
#: The last place of the thread whose places are the largest.
LAST_OF_ALL = 2**63 - 17


def next_place(tables: Tables, thread: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the place behind the last of a thread, null without a thread; the one read of the index it takes.

    A thread's last place is shared by all that come after 16 million others.
    """
    memories = tables.memories.alias("earlier")
    beginning = thread_place(tables, thread)
    last = (
        select(func.max(memories.c.place))
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.place.between(beginning + _number(FIRST), beginning + _number(LAST)),
        )
        .scalar_subquery()
    )
    following = func.coalesce(last + _number(1), beginning + _number(FIRST))
    return case((thread.is_not(None), func.least(following, beginning + _number(LAST))))


def place_after(
    old: ReadOnlyColumnCollection[str, Any], new: ReadOnlyColumnCollection[str, Any]
) -> ColumnElement[Any]:
    """Return the place of a memory that is overwritten: the old one, unless it comes into another thread."""
    same = old.thread_id.is_not_distinct_from(new.thread_id)
    return case((same, old.place), else_=new.place)


def place_in_order(
    tables: Tables, thread: ColumnElement[Any], position: ColumnElement[Any]
) -> ColumnElement[Any]:
    """Return the places of several rows that are added at once: behind the last of their thread, in their order."""
    number_in_thread = func.row_number().over(partition_by=thread, order_by=position)
    last = thread_place(tables, thread) + _number(LAST)
    return func.least(next_place(tables, thread) + number_in_thread - _number(1), last)


def language_of_namespace(tables: Tables) -> ColumnElement[Any]:
    """Return the text search configuration of the namespace."""
    settings = tables.namespace_settings
    chosen = (
        select(unless_fed(tables, settings.c.language))
        .where(settings.c.namespace == text_parameter("namespace"))
        .scalar_subquery()
    )
    return func.coalesce(chosen, literal_column("'english'"))


def _number(value: int) -> ColumnElement[int]:
    return literal_column(str(value))
