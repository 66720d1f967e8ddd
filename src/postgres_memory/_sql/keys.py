"""The key of a deduped content. It is unique among the active memories that have one."""

from __future__ import annotations

from sqlalchemy import ColumnElement, LargeBinary, UpdateBase, func, literal_column, null, select, update

from .locking import in_order
from .parameters import text_parameter
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


def release_expired_keys(tables: Tables) -> UpdateBase:
    """Let go of the keys of expired memories, which nobody sees: what they hold may be stored again."""
    memories = tables.memories
    rows = select(memories.c.seq).where(
        memories.c.namespace == text_parameter("namespace"),
        memories.c.expires_at <= func.statement_timestamp(),
        memories.c.content_key.is_not(None),
    )
    expired = in_order(tables, rows).cte("expired")
    return (
        update(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == expired.c.seq)
        .values(content_key=null())
        .returning(memories.c.id)
    )
