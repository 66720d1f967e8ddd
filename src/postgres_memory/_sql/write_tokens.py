"""Marks of what committed: a write leaves its token beside what it does, so that a lost answer can be found out.

Whoever lost the answer inserts the same token, as claimed. That waits for a commit still in flight; if the token is
there then, the write happened, and if not, it never will, since its own insert would meet this one.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, Select, UpdateBase, cast, delete, func, literal_column, select
from sqlalchemy.dialects.postgresql import UUID, insert

from .parameters import number_parameter, text_parameter
from .repeating import repeatable
from .schema import Tables

#: Stands instead of a number of rows in a token that no write left.
CLAIMED = -1


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


@repeatable
def claim_token(tables: Tables) -> UpdateBase:
    """Take a token; return how many rows were ``changed`` by the write that left it, or `CLAIMED` if none did.

    Who loses the answer takes it again, and is told the same.
    """
    tokens = tables.write_tokens
    inserted = insert(tokens).values(
        namespace=text_parameter("namespace"),
        token=cast(text_parameter("token"), UUID),
        changed=literal_column(str(CLAIMED)),
    )
    return inserted.on_conflict_do_update(
        index_elements=["namespace", "token"], set_={"changed": tokens.c.changed}
    ).returning(tokens.c.changed)


@repeatable
def purge_tokens(tables: Tables) -> Select[Any]:
    """Delete up to ``limit`` tokens older than ``before``, itself a token: they begin with their time."""
    tokens = tables.write_tokens
    old = (
        select(tokens.c.token)
        .where(
            tokens.c.namespace == text_parameter("namespace"),
            tokens.c.token < cast(text_parameter("before"), UUID),
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
