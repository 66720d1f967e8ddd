"""Marks of what committed: a write leaves its token beside what it does, so that a lost answer can be found out.

Whoever lost the answer inserts the same token, as claimed. That waits for a commit still in flight; if the token is
there then, the write happened, and if not, it never will, since its own insert would meet this one.

A token begins with its time, and old ones are deleted. What is old, the server's clock alone says: to who deletes, and
with room to spare to who asks, who is not told that nothing was written where a token may have been deleted.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Select,
    cast,
    delete,
    extract,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import UUID, insert

from .parameters import number_parameter, text_parameter
from .repeating import repeatable
from .schema import Tables

#: Stands instead of a number of rows in a token that no write left.
CLAIMED = -1

#: Seconds for which a token is kept, and for which what is not there was not written. Between the two, clocks of
#: servers that take over from each other, and of clients since they asked for the time, may go wrong.
KEPT = 86_400
TELLING = KEPT // 2


def marked(tables: Tables, changed: CTE) -> CTE:
    """Return the part of a statement that leaves its ``token``, if it is not null and rows were ``changed``."""
    tokens = tables.write_tokens
    token = text_parameter("token")
    number = func.count()
    row = (
        select(text_parameter("namespace"), cast(token, UUID), number)
        .select_from(changed)
        .where(token.is_not(None))
        .having(number > literal_column("0"))
    )
    return (
        insert(tokens)
        .from_select(["namespace", "token", "changed"], row, include_defaults=False)
        .cte("marked")
    )


def _of_age(seconds: int) -> ColumnElement[Any]:
    """Return the least UUID of so many seconds ago: every token made since then follows it."""
    epoch = extract("epoch", func.statement_timestamp())
    milliseconds = cast((epoch - literal_column(str(seconds))) * literal_column("1000"), BigInteger)
    digits = func.lpad(func.to_hex(milliseconds), literal_column("12"), literal_column("'0'"))
    return cast(func.rpad(digits, literal_column("32"), literal_column("'0'")), UUID)


@repeatable
def claim_token(tables: Tables) -> Select[Any]:
    """Take a token; return how many rows were ``changed`` by the write that left it, or `CLAIMED` if none did.

    Of a token that may have been deleted, that is not known. Who loses the answer takes it again, and is told the same.
    """
    tokens = tables.write_tokens
    inserted = insert(tokens).values(
        namespace=text_parameter("namespace"),
        token=cast(text_parameter("token"), UUID),
        changed=literal_column(str(CLAIMED)),
    )
    claimed = (
        inserted.on_conflict_do_update(
            index_elements=["namespace", "token"], set_={"changed": tokens.c.changed}
        )
        .returning(tokens.c.token, tokens.c.changed)
        .cte("claimed")
    )
    is_known = or_(claimed.c.changed >= literal_column("0"), claimed.c.token > _of_age(TELLING))
    return select(claimed.c.changed, is_known.label("is_known"))


@repeatable
def purge_tokens(tables: Tables) -> Select[Any]:
    """Delete up to ``limit`` tokens that are old."""
    tokens = tables.write_tokens
    old = (
        select(tokens.c.token)
        .where(
            tokens.c.namespace == text_parameter("namespace"),
            tokens.c.token < _of_age(KEPT),
        )
        .order_by(tokens.c.token)
        .limit(number_parameter("limit"))
        .with_for_update(skip_locked=True)
        .cte("old")
    )
    deleted = (
        delete(tokens)
        .where(
            tokens.c.namespace == text_parameter("namespace"),
            tokens.c.token == func.any(func.array(select(old.c.token).scalar_subquery())),
        )
        .returning(tokens.c.namespace)
        .cte("deleted")
    )
    return select(func.count().label("count")).select_from(deleted)
