"""Statements that turn a change feed on and off, read it, and take away what is old.

How a reader passes over no event that commits late is said in `changes`. What `read_changes` is given and returns:

    after    the number behind which events are wanted, the cursor
    safe     up to which every number was seen to be decided
    mark     a number that had been drawn before this statement's snapshot was taken
    barrier  the transaction id that was to be given next when that was so; if null, when this statement looks
    drawn    the number that was drawn last, the mark of the statement after this

Events up to ``mark`` are returned if no transaction is under way whose id is below ``barrier``, else up to ``safe``.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Update,
    and_,
    case,
    cast,
    delete,
    func,
    literal_column,
    null,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import REGCLASS, insert
from sqlalchemy.sql.dml import ReturningInsert

from .names import qualified, quote_text
from .parameters import boolean_parameter, float_parameter, number_parameter, seconds, text_parameter
from .repeating import repeatable
from .schema import Tables

#: The transactions under way in this database but one's own: whoever began later saw what was committed before.
RUNNING = """
SELECT l.virtualtransaction::text AS running
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.pid <> pg_catalog.pg_backend_pid()
  AND a.datid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
  AND a.backend_type <> 'autovacuum worker'
"""

#: Those that were prepared, which no process runs any more, and which are still to be committed or rolled back.
PREPARED = """
SELECT p.transaction::text AS running FROM pg_catalog.pg_prepared_xacts p
WHERE p.database = pg_catalog.current_database()
"""

#: Whether tables may be spread over several servers, whose transaction ids are not those of this one.
SPREAD = "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus')"

#: The first transaction id that is still under way, as the statement's snapshot has it.
_OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
#: The one that is to be given next. A snapshot ends behind the last that is over: ids behind it may be under way as
#: well, and are counted by `age`.
_NEXT = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint + age(pg_snapshot_xmax(pg_current_snapshot())::xid)"


def _sequence(tables: Tables) -> ColumnElement[Any]:
    name: ColumnElement[str] = literal_column(quote_text(qualified(tables.schema, "changes")))
    return cast(func.pg_get_serial_sequence(name, literal_column("'seq'")), REGCLASS)


@repeatable
def enable_feed(tables: Tables) -> ReturningInsert[Any]:
    """Give a namespace a feed, or leave it the one it has; return the number behind which its events are.

    That of a new feed is drawn, so that it is larger than any cursor of an earlier one.
    """
    settings = tables.namespace_settings
    statement = insert(settings).values(
        namespace=text_parameter("namespace"),
        changes_from=func.nextval(_sequence(tables)),
        changes_notified=boolean_parameter("notify"),
    )
    return statement.on_conflict_do_update(
        index_elements=[settings.c.namespace],
        set_={
            "changes_from": func.coalesce(settings.c.changes_from, statement.excluded.changes_from),
            "changes_notified": statement.excluded.changes_notified,
        },
    ).returning(settings.c.changes_from)


def disable_feed(tables: Tables) -> Update:
    """Take its feed from a namespace; return a row if it had one."""
    settings = tables.namespace_settings
    return (
        update(settings)
        .where(settings.c.namespace == text_parameter("namespace"), settings.c.changes_from.is_not(None))
        .values(changes_from=null())
        .returning(settings.c.namespace)
    )


def read_changes(tables: Tables) -> Select[Any]:
    """Return the next events of a feed in their order, at most ``limit``, and in each row, or in one, how it stands."""
    settings, changes = tables.namespace_settings, tables.changes
    kept_from = (
        select(settings.c.changes_from)
        .where(settings.c.namespace == text_parameter("namespace"))
        .scalar_subquery()
    )
    state = (
        select(
            kept_from.label("kept_from"),
            literal_column(_OLDEST, BigInteger).label("oldest"),
            literal_column(_NEXT, BigInteger).label("next"),
        )
        .cte("state")
        .prefix_with("MATERIALIZED")
    )
    is_passed = state.c.oldest >= func.coalesce(number_parameter("barrier"), state.c.next)
    page = (
        select(changes)
        .where(
            changes.c.namespace == text_parameter("namespace"),
            changes.c.seq > func.coalesce(number_parameter("after"), state.c.kept_from),
            changes.c.seq <= case((is_passed, number_parameter("mark")), else_=number_parameter("safe")),
        )
        .order_by(changes.c.seq)
        .limit(number_parameter("limit"))
        .lateral("page")
    )
    names = ("seq", "created_at", "version", "kind", "memory_id", "target_id", "relation_type", "label")
    return (
        select(
            state.c.kept_from,
            state.c.next,
            is_passed.label("is_passed"),
            func.coalesce(func.pg_sequence_last_value(_sequence(tables)), literal_column("0")).label("drawn"),
            *(page.c[name] for name in names),
        )
        .select_from(state.outerjoin(page, true()))
        .order_by(page.c.seq)
    )


def count_old_events(tables: Tables) -> Select[Any]:
    """Count the first events, up to number ``safe`` and the first that is not old."""
    changes = tables.changes
    decided = and_(
        changes.c.namespace == text_parameter("namespace"), changes.c.seq <= number_parameter("safe")
    )
    cut = func.statement_timestamp() - seconds(float_parameter("older_than"))
    not_old = select(func.min(changes.c.seq)).where(decided, changes.c.created_at >= cut).scalar_subquery()
    first_kept = func.coalesce(not_old, literal_column("9223372036854775807"))
    return select(func.count()).select_from(changes).where(decided, changes.c.seq < first_kept)


def prune_events(tables: Tables) -> Select[Any]:
    """Delete up to ``limit`` of the first events, up to number ``safe`` and the first that is not old.

    The feed then begins behind the last of them, which a reader sees in the same moment as that they are gone. Returns
    how many there were.
    """
    changes, settings = tables.changes, tables.namespace_settings
    of_namespace = changes.c.namespace == text_parameter("namespace")
    first = (
        select(changes.c.seq, changes.c.created_at)
        .where(of_namespace, changes.c.seq <= number_parameter("safe"))
        .order_by(changes.c.seq)
        .limit(number_parameter("limit"))
        .with_for_update()
        .cte("first")
    )
    cut = func.statement_timestamp() - seconds(float_parameter("older_than"))
    not_old = select(func.min(first.c.seq)).where(first.c.created_at >= cut).scalar_subquery()
    last = (
        select(func.max(first.c.seq).label("seq"), func.count().label("count"))
        .where(first.c.seq < func.coalesce(not_old, literal_column("9223372036854775807")))
        .cte("last")
    )
    moved = (
        update(settings)
        .where(
            settings.c.namespace == text_parameter("namespace"),
            settings.c.changes_from < last.c.seq,
        )
        .values(changes_from=last.c.seq)
        .returning(settings.c.namespace)
        .cte("moved")
    )
    deleted = (
        delete(changes)
        .where(of_namespace, changes.c.seq <= last.c.seq)
        .returning(changes.c.seq)
        .cte("deleted")
    )
    return select(func.count().label("count")).select_from(deleted).add_cte(moved)
