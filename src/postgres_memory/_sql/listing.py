"""Statements over many memories: pages, counts, deletion by filter, namespaces; and what a server says of itself."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    bindparam,
    delete,
    func,
    literal_column,
    null,
    select,
    true,
    tuple_,
    union_all,
)

from .changes import of_memories, told
from .locking import doomed
from .names import qualified
from .parameters import apart_from_planning, number_parameter, text_parameter
from .predicates import Shape, Visibility, predicate, visible
from .records import select_records
from .schema import Tables
from .write_tokens import marked

#: As many memories that an index leads to are all read and put in order.
_FEW = 2_000


def find_memories(
    tables: Tables,
    order_by: str,
    continued: bool,
    visibility: Visibility,
    shape: Shape,
    by_metadata: bool,
    expected: int | None,
) -> Select[Any]:
    """Select a page of whole records in the order of a column, with a minus the largest first, each with its ``seq``.

    ``continued`` pages begin after the place that the parameters name. Records are completed last, for the memories of
    the page. LATERAL with OFFSET 0 keeps that a lookup per row: under a generic plan, which cannot know the limit, the
    planner would otherwise read whole tables into hash joins.

    With ``by_metadata`` an index on metadata leads to what matches, and where that is little, it is put in order; else
    memories are read in the order asked for until enough match, as they are without the index. What is ``expected`` of
    the limit is at most that, where everything matches: which plan is best does not depend on values then.
    """
    memories = tables.memories
    order, descending = order_by.removeprefix("-"), order_by.startswith("-")
    type_ = memories.c[order].type
    matching = select(memories.c.seq, memories.c[order].label("place")).where(
        *_matching(memories, visibility, shape)
    )

    def page(rows: Select[Any], *key: ColumnElement[Any]) -> Select[Any]:
        if continued:
            after = tuple_(bindparam("after_value", type_=type_), number_parameter("after_seq"))
            rows = rows.where(tuple_(*key) < after if descending else tuple_(*key) > after)
        rows = rows.order_by(*_directed(key, descending))
        if expected is not None:
            first = rows.limit(literal_column(str(expected))).subquery("expected")
            rows = select(*first.c).order_by(*_directed((first.c.place, first.c.seq), descending))
        return rows.limit(number_parameter("limit"))

    in_order = page(matching, memories.c[order], memories.c.seq)
    if by_metadata:
        few, is_few = _first(matching)
        of_few = page(select(few.c.seq, few.c.place).where(is_few), few.c.place, few.c.seq)
        either = of_few.subquery("of_few"), in_order.where(~is_few).subquery("in_order")
        found = union_all(*(select(one.c.seq, one.c.place) for one in either)).subquery("page")
    else:
        found = in_order.subquery("page")
    record = (
        select_records(tables)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == found.c.seq)
        .offset(literal_column("0"))
        .lateral("record")
    )
    statement = (
        select(*record.c, found.c.seq)
        .select_from(found.join(record, true()))
        .order_by(*_directed((found.c.place, found.c.seq), descending))
    )
    return statement if expected is None else apart_from_planning(statement)


def _first(matching: Select[Any]) -> tuple[CTE, ColumnElement[bool]]:
    """Return the first of what is ``matching``, and whether that is all."""
    # Planned as if all were needed, which is by the index, and read no further than asked for.
    every = matching.cte("matching").prefix_with("MATERIALIZED")
    few = select(every).limit(literal_column(str(_FEW + 1))).cte("few").prefix_with("MATERIALIZED")
    counted = select(func.count()).select_from(few).scalar_subquery()
    return few, counted <= literal_column(str(_FEW))


def _directed(key: tuple[ColumnElement[Any], ...], descending: bool) -> list[ColumnElement[Any]]:
    return [column.desc() if descending else column.asc() for column in key]


def _matching(memories: FromClause, visibility: Visibility, shape: Shape) -> list[ColumnElement[bool]]:
    return [
        memories.c.namespace == text_parameter("namespace"),
        visible(memories, visibility),
        predicate(memories, shape),
    ]


def count_matching(tables: Tables, visibility: Visibility, shape: Shape) -> Select[Any]:
    """Count the memories that match."""
    memories = tables.memories
    return select(func.count()).select_from(memories).where(*_matching(memories, visibility, shape))


def delete_matching(tables: Tables, shape: Shape) -> Select[Any]:
    """Delete the memories that match, whatever their status, and return how many there were."""
    memories = tables.memories
    matching = doomed(tables, *_matching(memories, "all", shape))
    deleted = (
        delete(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == matching.c.seq)
        .returning(memories.c.id, memories.c.version)
        .cte("deleted")
    )
    events = told(tables, of_memories(deleted, "deleted"))
    return select(func.count()).select_from(deleted).add_cte(marked(tables, deleted), *events)


def list_namespaces(tables: Tables, counted: bool) -> Select[Any]:
    """Select every namespace that holds memories, in the order of characters.

    From one name to the next by the index, as PostgreSQL does not skip over equal keys by itself: see "Loose indexscan"
    in the PostgreSQL wiki. The work is in the number of namespaces, unless the memories are to be counted.
    """
    memories = tables.memories
    first = select(func.min(memories.c.namespace).label("name"))
    names = first.cte("names", recursive=True)
    following = (
        select(func.min(memories.c.namespace)).where(memories.c.namespace > names.c.name).scalar_subquery()
    )
    names = names.union_all(select(following).where(names.c.name.is_not(None)))

    def of_name(value: ColumnElement[Any]) -> ColumnElement[Any]:
        return select(value).where(memories.c.namespace == names.c.name).scalar_subquery()

    return (
        select(
            names.c.name,
            of_name(func.min(memories.c.created_at)).label("first_created_at"),
            of_name(func.max(memories.c.created_at)).label("last_created_at"),
            of_name(func.max(memories.c.updated_at)).label("last_updated_at"),
            (of_name(func.count()) if counted else null()).label("memories"),
        )
        .where(names.c.name.is_not(None))
        .order_by(names.c.name.collate("C"))
    )


#: What a server says of itself and of the role, for the schema $1. It reads system catalogs alone, so that it runs
#: whatever state the schema is in.
SERVER_FACTS = """
SELECT pg_catalog.current_setting('server_version') AS server_version,
       pg_catalog.current_setting('server_version_num')::int AS server_number,
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector') AS vector_version,
       current_user::text AS role,
       pg_catalog.pg_is_in_recovery() AS standby,
       owned.owner, coalesce(owned.acts_as_owner, false) AS acts_as_owner,
       coalesce(owned.readable, false) AS revision_readable
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT pg_catalog.min(pg_catalog.pg_get_userbyid(c.relowner)::text)
               FILTER (WHERE c.relname = 'memories') AS owner,
           pg_catalog.bool_and(pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE'))
               FILTER (WHERE c.relname <> 'alembic_version') AS acts_as_owner,
           pg_catalog.bool_or(
               c.relname = 'alembic_version' AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
               AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           ) AS readable
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
) AS owned ON true
"""


def read_revision(schema: str) -> str:
    """Return the statement that reads the revision a schema is at."""
    return f"SELECT pg_catalog.max(version_num) FROM {qualified(schema, 'alembic_version')}"
