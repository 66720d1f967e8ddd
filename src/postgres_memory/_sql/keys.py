"""The key of a deduped content. It is unique among the active memories that have one.

An expired memory, which nobody sees, must not hold a content. When it is found in the way, it lets go: a number of its
own takes the place of the digest and marks it as deduped, so that it holds its content again when it is revived.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    Select,
    UpdateBase,
    and_,
    false,
    func,
    literal_column,
    select,
    update,
)

from .locking import in_order
from .parameters import text_parameter
from .repeating import repeatable
from .schema import Tables


def content_key(owner: ColumnElement[str], content: ColumnElement[str]) -> ColumnElement[bytes]:
    """Return SHA-256 over owner, a zero byte and content: what stands for a content among an owner's deduped ones."""
    utf8: ColumnElement[str] = literal_column("'UTF8'")
    whole = (
        func.convert_to(owner, utf8, type_=LargeBinary)
        .op("||", return_type=LargeBinary())(literal_column(r"'\x00'::bytea", LargeBinary))
        .op("||", return_type=LargeBinary())(func.convert_to(content, utf8, type_=LargeBinary))
    )
    return func.sha256(whole, type_=LargeBinary)


def released_key(tables: Tables) -> ColumnElement[bytes]:
    """Return what a deduped memory that expired has in place of its content's digest."""
    return func.int8send(tables.memories.c.seq, type_=LargeBinary)


def holds_content(tables: Tables) -> ColumnElement[bool]:
    """Return whether a memory is deduped and has not let go of its content."""
    digest: ColumnElement[int] = literal_column("32")
    return func.coalesce(func.octet_length(tables.memories.c.content_key) == digest, false())


def find_key_holder(tables: Tables) -> Select[Any]:
    """Select the id of the active memory that holds what ``id`` is to have: the owner and content given, or its own."""
    memories, this = tables.memories, tables.memories.alias("this")
    one = select(literal_column("1").label("one")).subquery("one")
    is_it = and_(this.c.namespace == text_parameter("namespace"), this.c.id == text_parameter("id"))
    key = content_key(
        func.coalesce(text_parameter("owner"), this.c.owner),
        func.coalesce(text_parameter("content"), this.c.content),
    )
    wanted = select(key).select_from(one.outerjoin(this, is_it)).scalar_subquery()
    return select(memories.c.id).where(
        memories.c.namespace == text_parameter("namespace"),
        memories.c.content_key == wanted,
        memories.c.status == literal_column("'active'"),
        memories.c.id != text_parameter("id"),
    )


@repeatable
def release_expired_keys(tables: Tables) -> UpdateBase:
    """Let go of the keys of expired memories, which nobody sees: what they hold may be stored again."""
    memories = tables.memories
    rows = select(memories.c.seq).where(
        memories.c.namespace == text_parameter("namespace"),
        memories.c.expires_at <= func.statement_timestamp(),
        holds_content(tables),
    )
    expired = in_order(tables, rows).cte("expired")
    return (
        update(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == expired.c.seq)
        .values(content_key=released_key(tables))
        .returning(memories.c.id)
    )
