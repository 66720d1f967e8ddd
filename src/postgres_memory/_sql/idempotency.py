"""Statements on idempotency keys."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, UpdateBase, func, select, update
from sqlalchemy.dialects.postgresql import insert

from .parameters import bytes_parameter, float_parameter, seconds, text_parameter
from .schema import Tables


def claim_key(tables: Tables) -> UpdateBase:
    """Take a key that is free or expired; no row comes back where it is in use. Waits for a claim under way."""
    keys = tables.idempotency_keys
    now = func.statement_timestamp()
    statement = insert(keys).values(
        namespace=text_parameter("namespace"),
        owner=text_parameter("owner"),
        key=text_parameter("key"),
        memory_id=text_parameter("memory_id"),
        payload=bytes_parameter("payload"),
        expires_at=now + seconds(float_parameter("ttl_seconds")),
    )
    return statement.on_conflict_do_update(
        index_elements=[keys.c.namespace, keys.c.owner, keys.c.key],
        set_={name: statement.excluded[name] for name in ("memory_id", "payload", "expires_at")},
        where=keys.c.expires_at <= now,
    ).returning(keys.c.key)


def get_key(tables: Tables) -> Select[Any]:
    """Return what is remembered under a key."""
    keys = tables.idempotency_keys
    return select(keys.c.memory_id, keys.c.payload).where(_this(tables))


def point_key(tables: Tables) -> UpdateBase:
    """Let a key name another memory: the one that was there instead of a new one."""
    keys = tables.idempotency_keys
    return update(keys).where(_this(tables)).values(memory_id=text_parameter("memory_id"))


def _this(tables: Tables) -> ColumnElement[bool]:
    keys = tables.idempotency_keys
    return (
        (keys.c.namespace == text_parameter("namespace"))
        & (keys.c.owner == text_parameter("owner"))
        & (keys.c.key == text_parameter("key"))
    )
