"""Statements that read the tables of other systems, oldest row first. JSON comes as text, as from our own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, column, func, literal_column, or_, select, table

from ..errors import InvalidValueError
from .names import quote_text
from .parameters import text_parameter

_MEM0_KEYS = ("user_id", "agent_id", "run_id", "actor_id", "role")
_PGMEMORY_KEYS = ("app_name", "user_id", "category", "source_session_id")
_PGMEMORY = (
    "id",
    "app_name",
    "user_id",
    "content",
    "category",
    "importance",
    "created_at",
    "valid_from",
    "valid_until",
    "last_accessed",
    "source_session_id",
    "source_event_id",
    "source_event_timestamp",
    "source_role",
)


def mem0_rows(schema: str, name: str, only: Mapping[str, str]) -> Select[Any]:
    """Read a collection of mem0's pgvector store; ``only`` names keys of the payload."""
    payload: ColumnElement[Any] = column("payload")
    id_: ColumnElement[Any] = column("id")
    rows = table(name, column("id"), column("payload"), schema=schema)
    chosen: list[ColumnElement[Any]] = [cast(id_, Text).label("id"), cast(payload, Text).label("payload")]
    return (
        select(*chosen)
        .select_from(rows)
        .where(*(_text_in(payload, key) == _wanted(key, _MEM0_KEYS) for key in only))
        .order_by(_text_in(payload, "created_at"), id_)
    )


def langgraph_rows(schema: str, name: str, only: Mapping[str, str]) -> Select[Any]:
    """Read a store of LangGraph's; ``only`` may name the ``prefix``, and means what lies below it as well."""
    prefix: ColumnElement[Any] = column("prefix", Text)
    columns = ("prefix", "key", "value", "created_at", "updated_at", "expires_at")
    rows = table(name, *(column(each) for each in columns), schema=schema)
    wanted = [_wanted(key, ("prefix",)) for key in only]
    return (
        select(
            prefix,
            column("key"),
            cast(column("value"), Text).label("value"),
            *(column(each) for each in columns[3:]),
        )
        .select_from(rows)
        .where(
            *(
                or_(prefix == each, func.starts_with(prefix, each.concat(literal_column("'.'"))))
                for each in wanted
            )
        )
        .order_by(column("created_at"), prefix, column("key"))
    )


def pgmemory_rows(schema: str, name: str, only: Mapping[str, str]) -> Select[Any]:
    """Read a table of pgmemory's; ``only`` names columns of it."""
    rows = table(name, *(column(each) for each in (*_PGMEMORY, "metadata")), schema=schema)
    chosen: list[ColumnElement[Any]] = [column(each) for each in _PGMEMORY]
    chosen.append(cast(column("metadata"), Text).label("metadata"))
    return (
        select(*chosen)
        .select_from(rows)
        .where(*(cast(column(key), Text) == _wanted(key, _PGMEMORY_KEYS) for key in only))
        .order_by(column("id"))
    )


def _text_in(json: ColumnElement[Any], key: str) -> ColumnElement[Any]:
    return json.op("->>")(literal_column(quote_text(key)))


def _wanted(key: str, known: tuple[str, ...]) -> ColumnElement[str]:
    if key not in known:
        raise InvalidValueError("only", f"of this source may name {', '.join(known)}, not {key[:40]!r}")
    return text_parameter(f"only_{key}")
