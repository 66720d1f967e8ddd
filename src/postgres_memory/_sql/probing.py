"""Statements that try what a principal must not be able to do, and those that prepare something to try it on."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    UpdateBase,
    cast,
    delete,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import UUID, Insert, insert

from .calls import principal
from .parameters import number_parameter, text_parameter
from .schema import Tables

#: What holds rows of principals, each with a column that a principal may set of its own rows.
PROBED = {
    "memories": "content",
    "memory_hash_embeddings": "status",
    "memory_embeddings": "embedding",
    "memory_access": "access_count",
    "memory_relations": "confidence",
    "session_messages": "message",
    "idempotency_keys": "memory_id",
}
#: What a principal reads in its namespace, and what it does not read at all; it writes neither.
OF_NAMESPACE = {"embedding_spaces": "status", "namespace_settings": "language"}
OF_BACKEND = {"known_words": "memories", "write_tokens": "changed"}
#: What says whose a memory is, and who else may do what with it.
ACCESS = ("owner", "readers", "writers")

#: What a principal adds to in its namespace, and neither reads nor changes.
TOLD = {"changes": "memory_id"}

_COLUMNS = PROBED | OF_NAMESPACE | OF_BACKEND | TOLD
#: What a row is inserted with, beside the names of whom and what it is of.
_CONSTANTS = {
    "relation_type": "'related'",
    "last_accessed": "statement_timestamp()",
    "access_count": "1",
    "dimensions": "1",
    "message": "'{}'",
    "kind": "'added'",
    "memories": "1",
    "payload": "''",
    "expires_at": "statement_timestamp()",
}
_INSERTED = {
    "memories": ("id", "content", "owner"),
    "memory_hash_embeddings": ("seq",),
    "memory_embeddings": ("space", "seq"),
    "memory_access": ("id", "last_accessed", "access_count"),
    "memory_relations": ("source_id", "relation_type", "target_id"),
    "session_messages": ("session_id", "message", "owner"),
    "idempotency_keys": ("owner", "key", "memory_id", "payload", "expires_at"),
    "embedding_spaces": ("name", "dimensions"),
    "namespace_settings": (),
    "known_words": ("word", "memories"),
    "write_tokens": ("token",),
    "changes": ("kind", "memory_id"),
}


def count_rows(tables: Tables, name: str) -> Select[Any]:
    """Count the rows of a namespace."""
    table = _table(tables, name)
    return select(func.count()).select_from(table).where(table.c.namespace == text_parameter("namespace"))


def overwrite_rows(tables: Tables, name: str, column: str | None = None) -> UpdateBase:
    """Write over all rows of a namespace what is in them; return those written."""
    table = _table(tables, name)
    written = table.c[column or _COLUMNS[name]]
    return (
        update(table)
        .where(table.c.namespace == text_parameter("namespace"))
        .values({written: written})
        .returning(table.c.namespace)
    )


def delete_rows(tables: Tables, name: str) -> UpdateBase:
    """Delete all rows of a namespace; return those deleted."""
    table = _table(tables, name)
    return delete(table).where(table.c.namespace == text_parameter("namespace")).returning(table.c.namespace)


def insert_row(tables: Tables, name: str) -> UpdateBase:
    """Insert a row for whom and what the parameters name. What policies refuse is refused before any constraint."""
    given = {column: _given(column) for column in _INSERTED[name]}
    return _unread(insert(_table(tables, name)).values(namespace=text_parameter("namespace"), **given))


def _unread(statement: Insert) -> Insert:
    """Have an INSERT return nothing: for what is returned, the policies of SELECT count as well."""
    return statement.inline()


def _given(column: str) -> ColumnElement[Any]:
    if column in _CONSTANTS:
        return literal_column(_CONSTANTS[column])
    if column == "seq":
        return number_parameter(column)
    return cast(text_parameter("id"), UUID) if column == "token" else text_parameter(column)


def insert_in_place_of(tables: Tables) -> UpdateBase:
    """Insert a memory that is said to replace another one."""
    names = ("namespace", "id", "content", "owner", "supersedes")
    return _unread(insert(tables.memories).values({name: text_parameter(name) for name in names}))


def number_of(tables: Tables) -> Select[Any]:
    """Return one row: the number of a memory."""
    memories = tables.memories
    return select(memories.c.seq).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("id")
    )


def prepare_vector(tables: Tables) -> Select[Any]:
    """Give every memory of a namespace a row, without a vector, in a space of its name."""
    spaces, table, memories = tables.embedding_spaces, tables.memory_embeddings, tables.memories
    namespace = text_parameter("namespace")
    space = (
        insert(spaces)
        .values(namespace=namespace, name=namespace, dimensions=literal_column("1"))
        .returning(spaces.c.name)
        .cte("space")
    )
    rows = select(memories.c.namespace, space.c.name, memories.c.seq, null()).where(
        memories.c.namespace == namespace
    )
    names = ["namespace", "space", "seq", "embedding"]
    vectors = insert(table).from_select(names, rows, include_defaults=False).returning(table.c.seq)
    return select(func.count()).select_from(vectors.cte("vectors"))


def prepare_access(tables: Tables) -> UpdateBase:
    """Count an access to every memory of a namespace."""
    access, memories = tables.memory_access, tables.memories
    rows = select(memories.c.namespace, memories.c.id, func.statement_timestamp(), literal_column("1")).where(
        memories.c.namespace == text_parameter("namespace")
    )
    names = ["namespace", "id", "last_accessed", "access_count"]
    return insert(access).from_select(names, rows, include_defaults=False)


def who_asks(tables: Tables) -> Select[Any]:
    """Return one row: who policies take for the principal."""
    return select(principal(tables).label("principal"))


#: What is known of the tables of the schema $1 and of who is logged in, from the catalogs alone.
FACTS = """
SELECT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user) AS superuser,
       session_user::text AS login,
       EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $2) AS there,
       ARRAY(SELECT t.relname::text FROM pg_catalog.pg_class t
             WHERE t.relnamespace = n.oid AND t.relkind IN ('r', 'p')
               AND t.relname <> 'alembic_version' AND NOT t.relrowsecurity ORDER BY 1) AS unprotected
FROM pg_catalog.pg_namespace n WHERE n.nspname = $1
"""

#: What the role $2 can do that no policy of the schema $1 keeps it from: by itself, or as a role it is a member of in
#: whatever way, since who may set a role acts as it, and who may grant one gives it to itself. Before PostgreSQL 16,
#: CREATEROLE is the right to grant every role but a superuser. Who may create functions and operators where the
#: backend, which asks this, looks for them by its search_path has it run them: one whose types fit better goes before
#: the server's own. A schema of the backend's name is such a place, too.
POWERS = """
SELECT m.rolname::text AS name, m.rolname = r.rolname AS itself,
       m.rolsuper AS superuser, m.rolbypassrls AS bypasses, m.rolreplication AS replicates,
       EXISTS (SELECT FROM pg_catalog.pg_class t WHERE t.relnamespace = n.oid AND t.relowner = m.oid) AS owns,
       m.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program') AS opens_files,
       m.rolcreaterole AND pg_catalog.current_setting('server_version_num')::int < 160000 AS grants_roles,
       CASE WHEN m.rolname = r.rolname THEN ARRAY(
           SELECT pg_catalog.format('%s on %s', p.name, t.relname)
           FROM pg_catalog.pg_class t, pg_catalog.unnest(ARRAY['TRUNCATE', 'TRIGGER', 'REFERENCES']) AS p (name)
           WHERE t.relnamespace = n.oid AND t.relkind IN ('r', 'p')
             AND pg_catalog.has_table_privilege(r.oid, t.oid, p.name) ORDER BY 1)
         ELSE '{}' END AS rights,
       CASE WHEN m.rolname = r.rolname THEN ARRAY(
           SELECT s.nspname::text FROM pg_catalog.pg_namespace s
           WHERE (s.oid = n.oid OR s.nspname = ANY (pg_catalog.current_schemas(false)))
             AND pg_catalog.has_schema_privilege(r.oid, s.oid, 'CREATE') ORDER BY 1)
         ELSE '{}' END AS creates_in,
       m.rolname = r.rolname
         AND pg_catalog.has_database_privilege(r.oid, pg_catalog.current_database(), 'CREATE') AS creates_schemas
FROM pg_catalog.pg_roles r
JOIN pg_catalog.pg_roles m ON m.oid = r.oid OR (NOT r.rolsuper AND pg_catalog.pg_has_role(r.oid, m.oid, 'MEMBER'))
CROSS JOIN pg_catalog.pg_namespace n
WHERE r.rolname = $2 AND n.nspname = $1
ORDER BY m.rolname <> r.rolname, m.rolname
"""


def _table(tables: Tables, name: str) -> Table:
    found: Table = tables.metadata.tables[f"{tables.schema}.{name}"]
    return found
