"""The change feed: the events that statements write beside what they change.

An event has a number, ``seq``, which its statement draws when it has written the memory and so holds its row: what can
only happen after something else has a larger number than that. Numbers are not the order of commits. So who reads takes
what is up to a ``mark``, a number that had been drawn when it looked. Whoever drew it, or one before it, had its
transaction id by then. Once no transaction is under way whose id was given by that time, every number up to the mark is
decided: its event is there to be seen, or never will be. See `reading_changes`.

Whether a namespace has a feed, its settings say: ``changes_from`` is null, or the number behind which every event is
kept. Each statement asks for that itself. The hottest are built a second time, as if there were no feed: without
events, and with a look at the settings, which they take anyway, that fails where there is one. See `guarded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    Text,
    case,
    cast,
    false,
    func,
    literal_column,
    null,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import insert

from .calls import refuse_without_events
from .feed import CHANNEL
from .names import quote_text
from .parameters import numbers_parameter, text_parameter
from .schema import Tables

_COLUMNS = ("kind", "memory_id", "version", "target_id", "relation_type", "label")

BuilderT = TypeVar("BuilderT", bound=Callable[..., Any])

_guarded: set[object] = set()


def guarded(builder: BuilderT) -> BuilderT:
    """Say of a builder that its statement, built for ``quiet`` tables, fails where there is a feed."""
    _guarded.add(builder)
    return builder


def is_guarded(builder: object) -> bool:
    """Say whether that was said of ``builder``."""
    return builder in _guarded


def unless_fed(tables: Tables, value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return ``value``, read from the settings of a namespace; for quiet tables, fail where there is a feed."""
    if not tables.quiet:
        return value
    fed = tables.namespace_settings.c.changes_from.is_not(None)
    return case((fed, refuse_without_events(tables)), else_=value)


def of_memories(written: FromClause, kind: str | ColumnElement[str]) -> Select[Any]:
    """Return the events of memories that were ``written``: rows with an ``id`` and a ``version``."""
    columns: list[ColumnElement[Any]] = [
        (literal_column(quote_text(kind), Text) if isinstance(kind, str) else kind).label("kind"),
        written.c.id.label("memory_id"),
        written.c.version.label("version"),
        *(literal_column("NULL::text").label(name) for name in ("target_id", "relation_type", "label")),
    ]
    return select(*columns)


def of_relations(written: FromClause, kind: str) -> Select[Any]:
    """Return the events of relations that were ``written``."""
    return select(
        literal_column(quote_text(kind), Text).label("kind"),
        written.c.source_id.label("memory_id"),
        cast(null(), BigInteger).label("version"),
        *(written.c[name] for name in ("target_id", "relation_type", "label")),
    )


def added_or_updated(written: FromClause) -> ColumnElement[str]:
    """Return the kind of a change that made a memory, or a new version of one that was there."""
    is_new = written.c.version == literal_column("1")
    return case((is_new, literal_column("'added'", Text)), else_=literal_column("'updated'", Text))


def told(tables: Tables, *events: Select[Any]) -> tuple[CTE, ...]:
    """Return the part of a statement that writes ``events`` where there is a feed; none for quiet tables."""
    if tables.quiet:
        return ()
    rows = (union_all(*events) if len(events) > 1 else events[0]).subquery("event")
    # A condition on the row itself, or it would be asked, and told, before it is known whether there are any.
    is_told = case((rows.c.memory_id.is_(None), false()), else_=_is_fed(tables))
    row = select(text_parameter("namespace"), *(rows.c[name] for name in _COLUMNS)).where(is_told)
    statement = insert(tables.changes).from_select(["namespace", *_COLUMNS], row, include_defaults=False)
    return (statement.cte("told"),)


def tell_of_loaded(tables: Tables) -> Select[Any]:
    """Write the events of memories that were copied, given by their numbers, where there is a feed."""
    memories = tables.memories
    loaded = (
        select(memories.c.id, memories.c.version)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.seq == func.any(numbers_parameter("seqs")),
        )
        .order_by(memories.c.seq)
        .subquery("loaded")
    )
    return select(literal_column("1")).add_cte(*told(tables, of_memories(loaded, "added")))


def _is_fed(tables: Tables) -> ColumnElement[bool]:
    """Say that the namespace has a feed, having told those who listen that there is something for them."""
    settings = tables.namespace_settings
    name = literal_column(quote_text(f"{tables.schema}."), Text).concat(settings.c.namespace)
    digest = func.encode(
        func.sha256(func.convert_to(name, literal_column("'UTF8'"))), literal_column("'hex'")
    )
    notified = func.pg_notify(literal_column(quote_text(CHANNEL)), digest).is_not(None)
    return (
        select(
            case(
                (settings.c.changes_from.is_(None), false()),
                (settings.c.changes_notified, notified),
                else_=true(),
            )
        )
        .where(settings.c.namespace == text_parameter("namespace"))
        .scalar_subquery()
    )
