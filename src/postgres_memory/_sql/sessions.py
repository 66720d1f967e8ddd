"""Statements on the conversation log."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Delete,
    Select,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from .parameters import number_parameter, text_parameter
from .repeating import repeatable
from .schema import Tables
from .write_tokens import marked


def add_messages(tables: Tables) -> Select[Any]:
    """Append messages (an array of JSON texts) in the order given, as ``owner``'s."""
    messages = tables.session_messages
    given = (
        func.unnest(bindparam("messages", type_=ARRAY(Text())))
        .table_valued(column("message", Text), with_ordinality="position", name="given")
        .render_derived()
    )
    rows = select(
        text_parameter("namespace"),
        text_parameter("session_id"),
        text_parameter("owner"),
        cast(given.c.message, JSONB),
    ).order_by(given.c.position)
    names = ["namespace", "session_id", "owner", "message"]
    added = (
        insert(messages)
        .from_select(names, rows, include_defaults=False)
        .returning(messages.c.namespace)
        .cte("added")
    )
    return select(func.count().label("count")).select_from(added).add_cte(marked(tables, added))


def get_messages(tables: Tables) -> Select[Any]:
    """Return every message of a session, oldest first."""
    messages = tables.session_messages
    return (
        select(cast(messages.c.message, Text).label("message"))
        .where(
            messages.c.namespace == text_parameter("namespace"),
            messages.c.session_id == text_parameter("session_id"),
        )
        .order_by(messages.c.seq)
    )


def get_last_messages(tables: Tables) -> Select[Any]:
    """Return the last ``limit`` messages of a session, oldest first."""
    messages = tables.session_messages
    last = (
        select(messages.c.seq, messages.c.message)
        .where(
            messages.c.namespace == text_parameter("namespace"),
            messages.c.session_id == text_parameter("session_id"),
        )
        .order_by(messages.c.seq.desc())
        .limit(number_parameter("limit"))
        .subquery("last")
    )
    return select(cast(last.c.message, Text).label("message")).order_by(last.c.seq)


@repeatable
def clear_messages(tables: Tables) -> Delete:
    """Delete every message of a session."""
    messages = tables.session_messages
    return delete(messages).where(
        messages.c.namespace == text_parameter("namespace"),
        messages.c.session_id == text_parameter("session_id"),
    )
