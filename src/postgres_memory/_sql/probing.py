"""Statements that try what a principal must not be able to do, and those that prepare something to try it on."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, Table, UpdateBase, delete, func, literal_column, null, select, update
from sqlalchemy.dialects.postgresql import insert

from .calls import principal
from .parameters import text_parameter
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
#: Those of them that a principal may update and delete from at all; it is refused the others.
UPDATED = ("memories", "memory_hash_embeddings", "memory_embeddings", "memory_relations", "idempotency_keys")
DELETED = ("memories", "memory_relations", "session_messages")


def count_rows(tables: Tables, name: str) -> Select[Any]:
    """Count the rows of a namespace."""
    table = _table(tables, name)
    return select(func.count()).select_from(table).where(table.c.namespace == text_parameter("namespace"))


def overwrite_rows(tables: Tables, name: str) -> UpdateBase:
    """Write over all rows of a namespace what is in them; return those written."""
    table = _table(tables, name)
    column = table.c[PROBED[name]]
    return (
        update(table)
        .where(table.c.namespace == text_parameter("namespace"))
        .values({column: column})
        .returning(table.c.namespace)
    )


def delete_rows(tables: Tables, name: str) -> UpdateBase:
    """Delete all rows of a namespace; return those deleted."""
    table = _table(tables, name)
    return delete(table).where(table.c.namespace == text_parameter("namespace")).returning(table.c.namespace)


def insert_for_another(tables: Tables) -> UpdateBase:
    """Insert a memory that is ``owner``'s."""
    return insert(tables.memories).values(
        namespace=text_parameter("namespace"),
        id=text_parameter("id"),
        content=text_parameter("id"),
        owner=text_parameter("owner"),
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


#: What is known of the role $2 and of the tables of the schema $1, from the catalogs alone.
ROLE_FACTS = """
SELECT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user) AS superuser,
       session_user::text AS login, owned.owner,
       r.rolname IS NOT NULL AS there, r.rolsuper AS is_superuser, r.rolbypassrls AS bypasses,
       pg_catalog.pg_has_role(r.oid, owned.oid, 'MEMBER') AS acts_as_owner,
       owned.unprotected
FROM (
    SELECT c.relowner AS oid, pg_catalog.pg_get_userbyid(c.relowner)::text AS owner,
           ARRAY(SELECT t.relname::text FROM pg_catalog.pg_class t
                 WHERE t.relnamespace = c.relnamespace AND t.relkind IN ('r', 'p')
                   AND t.relname <> 'alembic_version' AND NOT t.relrowsecurity ORDER BY 1) AS unprotected
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'memories'
) AS owned
LEFT JOIN pg_catalog.pg_roles r ON r.rolname = $2
"""


#: What is known of the login itself.
LOGIN_FACTS = """
SELECT r.rolname::text AS login, r.rolsuper AS superuser, r.rolbypassrls AS bypasses
FROM pg_catalog.pg_roles r WHERE r.rolname = session_user
"""


def _table(tables: Tables, name: str) -> Table:
    found: Table = tables.metadata.tables[f"{tables.schema}.{name}"]
    return found
