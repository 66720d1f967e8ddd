"""What the server's catalogs say about one schema: everything that two ways of making it must agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg

from postgres_memory._sql.feed import refusing_function
from postgres_memory._sql.functions import hash_counts_function, hash_embedding_function
from postgres_memory._sql.names import quote
from postgres_memory._sql.policies import (
    PRINCIPAL_ROLE,
    principal_functions,
    principal_policies,
    principal_rights,
)
from postgres_memory._sql.schema import tables
from postgres_memory._sql.term_functions import lexical_terms_function, thread_place_function

if TYPE_CHECKING:
    from sqlalchemy import Connection as SyncConnection

Catalog = dict[str, list[tuple[Any, ...]]]

_VERSION = "('alembic_version', 'alembic_version_pkc')"
_OF_TABLE = f"n.nspname = $1 AND c.relname NOT IN {_VERSION}"

#: Under an empty search_path, which qualifies every name. Nothing here depends on object ids or on the role, nor on
#: columns that were dropped or added later, but for their order.
_QUERIES = {
    "relations": f"""
        SELECT c.relname, c.relkind::text, c.relpersistence::text, c.reloptions, c.relrowsecurity,
               c.relforcerowsecurity, c.relreplident::text, am.amname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am am ON am.oid = c.relam
        WHERE {_OF_TABLE} ORDER BY 1""",
    "columns": f"""
        SELECT c.relname, row_number() OVER (PARTITION BY c.relname ORDER BY a.attnum), a.attname,
               format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity::text, a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid), a.attstorage::text,
               a.attcompression::text, a.attcollation::regcollation::text, a.attoptions
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE {_OF_TABLE} AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2""",
    "constraints": f"""
        SELECT c.relname, k.conname, k.contype::text, pg_get_constraintdef(k.oid), k.convalidated, k.condeferrable
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {_OF_TABLE} ORDER BY 1, 2""",
    "indexes": f"""
        SELECT c.relname, i.indisunique, i.indisprimary, i.indisvalid, i.indnullsnotdistinct, i.indisclustered,
               pg_get_indexdef(i.indexrelid),
               ARRAY(SELECT o.opcname::text FROM unnest(i.indclass::oid[]) WITH ORDINALITY u(oid, place)
                     JOIN pg_opclass o ON o.oid = u.oid ORDER BY u.place)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {_OF_TABLE} ORDER BY 1""",
    "sequences": """
        SELECT c.relname, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
               s.seqcache, s.seqcycle
        FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 ORDER BY 1""",
    "functions": """
        SELECT p.proname, pg_get_functiondef(p.oid), p.provolatile::text, p.proisstrict, p.proparallel::text
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = $1 AND p.prokind = 'f'
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
        ORDER BY 1, 2""",
    "types": f"""
        SELECT t.typname, t.typtype::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE n.nspname = $1 AND t.typname NOT IN ('alembic_version', '_alembic_version')
        AND t.typname NOT IN {_VERSION}
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_type'::regclass AND objid = t.oid AND deptype = 'e')
        ORDER BY 1""",
    "triggers": f"""
        SELECT c.relname, g.tgname, pg_get_triggerdef(g.oid)
        FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {_OF_TABLE} AND NOT g.tgisinternal ORDER BY 1, 2""",
    "policies": f"""
        SELECT c.relname, p.polname, p.polcmd::text, p.polpermissive, p.polroles::regrole[]::text[],
               pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)
        FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {_OF_TABLE} ORDER BY 1, 2""",
    # What others than the owner may do. PUBLIC may call functions unless that is taken away.
    "rights": f"""
        WITH held AS (
            SELECT 'schema' AS kind, '' AS name, nspacl AS acl, nspowner AS owner
            FROM pg_namespace WHERE nspname = $1
            UNION ALL
            SELECT c.relkind::text, c.relname::text, c.relacl, c.relowner
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OF_TABLE}
            UNION ALL
            SELECT 'column', c.relname || '.' || a.attname, a.attacl, c.relowner
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE {_OF_TABLE}
            UNION ALL
            SELECT 'function', p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner
            FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = $1 AND NOT EXISTS (
                SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
        )
        SELECT kind, name, a.grantee::regrole::text, a.privilege_type, a.is_grantable
        FROM held, aclexplode(acl) a WHERE a.grantee <> owner ORDER BY 1, 2, 3, 4""",
}


async def read_catalog(dsn: str, schema: str = "memory") -> Catalog:
    """Return everything in ``schema`` but Alembic's own table."""
    connection = await asyncpg.connect(dsn)
    try:
        return await catalog_of(connection, schema)
    finally:
        await connection.close()


async def catalog_of(connection: asyncpg.Connection[asyncpg.Record], schema: str = "memory") -> Catalog:
    """Return it as ``connection`` sees it, inside a transaction of its own."""
    async with connection.transaction():
        await connection.execute("SET LOCAL search_path = ''")
        return {
            kind: [tuple(row) for row in await connection.fetch(query, schema)]
            for kind, query in _QUERIES.items()
        }


def create_from_metadata(connection: SyncConnection, schema: str, extension_schema: str) -> None:
    """Create what the revisions create, from the one definition in `_sql`."""
    for statement in (
        f"CREATE SCHEMA IF NOT EXISTS {quote(extension_schema)}",
        f"CREATE EXTENSION vector SCHEMA {quote(extension_schema)}",
        f"CREATE SCHEMA {quote(schema)}",
        hash_counts_function(schema, extension_schema),
        hash_embedding_function(schema, extension_schema),
        lexical_terms_function(schema),
        thread_place_function(schema),
        refusing_function(schema),
    ):
        connection.exec_driver_sql(statement)
    tables(schema, extension_schema).metadata.create_all(connection)
    for statement in (
        *principal_functions(schema, PRINCIPAL_ROLE),
        *principal_policies(schema),
        *principal_rights(schema, PRINCIPAL_ROLE),
    ):
        if '"alembic_version"' not in statement:  # which Alembic makes, for who is migrated
            connection.exec_driver_sql(statement)
