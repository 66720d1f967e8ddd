"""What `doctor` asks system catalogs of the server, its sessions and its roles; none of it reads a table of ours."""

from __future__ import annotations

#: The server, the extension and who asks.
SERVER = """
SELECT pg_catalog.current_setting('server_version') AS version,
       pg_catalog.current_setting('server_version_num')::int AS number,
       e.extversion AS vector_version, n.nspname::text AS extension_schema,
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false) AS extension_usable,
       (SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = 'vector') AS vector_available,
       session_user::text AS login, pg_catalog.current_database()::text AS database,
       pg_catalog.pg_is_in_recovery() AS standby, pg_catalog.pg_jit_available() AS jit_available
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_extension e ON e.extname = 'vector'
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
"""

#: Settings by name, as a session of this login begins with them, and where that was said.
SETTINGS = """
SELECT name, reset_val AS value, source, coalesce(unit, '') AS unit
FROM pg_catalog.pg_settings WHERE name = ANY ($1::text[])
"""

#: Which of the tables $2 the schema $1 lacks.
MISSING_TABLES = """
SELECT ARRAY(
    SELECT wanted FROM pg_catalog.unnest($2::text[]) AS wanted
    WHERE NOT EXISTS (
        SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = wanted AND c.relkind IN ('r', 'p')
    ) ORDER BY 1
) AS missing
"""

#: The server's clock.
CLOCK = "SELECT EXTRACT(epoch FROM pg_catalog.clock_timestamp())::float8 AS now"

#: The login, and the roles that may act as principals in the schema $1: those that may call what is for these alone.
ACCESS = """
WITH owned AS (
    SELECT c.relowner AS owner, pg_catalog.pg_get_userbyid(c.relowner)::text AS owner_name, n.oid AS schema
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'memories'
)
SELECT r.rolname::text AS role, r.rolsuper AS superuser, r.rolbypassrls AS bypasses, owned.owner_name AS owner,
       r.rolname = session_user AS is_login,
       pg_catalog.pg_has_role(r.oid, owned.owner, 'USAGE') AS acts_as_owner,
       pg_catalog.pg_has_role(r.oid, owned.owner, 'MEMBER') AS is_member,
       ARRAY(SELECT t.relname::text FROM pg_catalog.pg_class t
             WHERE t.relnamespace = owned.schema AND t.relkind IN ('r', 'p')
               AND t.relname <> 'alembic_version' AND NOT t.relrowsecurity ORDER BY 1) AS unprotected
FROM owned
JOIN pg_catalog.pg_roles r ON r.rolname = session_user OR r.oid IN (
    SELECT a.grantee FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
    WHERE p.pronamespace = owned.schema AND p.proname = 'set_access' AND a.grantee <> p.proowner
)
ORDER BY is_login DESC, role
"""

#: How many sessions there are of how many.
CONNECTIONS = """
SELECT pg_catalog.current_setting('max_connections')::int
         - pg_catalog.current_setting('superuser_reserved_connections')::int
         - coalesce(nullif(pg_catalog.current_setting('reserved_connections', true), ''), '0')::int AS available,
       (SELECT pg_catalog.sum(numbackends)::int FROM pg_catalog.pg_stat_database) AS used,
       r.rolconnlimit AS role_limit, d.datconnlimit AS database_limit, r.rolsuper AS superuser
FROM pg_catalog.pg_roles r, pg_catalog.pg_database d
WHERE r.rolname = session_user AND d.datname = pg_catalog.current_database()
"""

#: The sessions of this database that are in a transaction, oldest snapshot first. Of sessions of other roles a login
#: without the rights of pg_read_all_stats sees the snapshot, and not what they do: ``hidden``.
SESSIONS = """
SELECT pid, usename::text AS role, coalesce(state, '') AS state, state IS NULL AS hidden,
       coalesce(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - state_change), 0)::float8 AS idle_seconds,
       coalesce(pg_catalog.age(backend_xmin), 0) AS xmin_age
FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in transaction%')
ORDER BY xmin_age DESC, idle_seconds DESC
LIMIT 100
"""

#: Transactions that were prepared and neither committed nor rolled back.
PREPARED = """
SELECT gid, EXTRACT(epoch FROM pg_catalog.clock_timestamp() - prepared)::float8 AS seconds
FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() ORDER BY prepared LIMIT 100
"""

#: Replication slots: what each holds back, of write-ahead log in bytes and of transactions.
SLOTS = """
SELECT slot_name::text AS name, active,
       greatest(pg_catalog.age(xmin), pg_catalog.age(catalog_xmin), 0) AS xmin_age,
       coalesce((CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
                 ELSE pg_catalog.pg_current_wal_lsn() END - restart_lsn), 0)::bigint AS kept_bytes
FROM pg_catalog.pg_replication_slots ORDER BY kept_bytes DESC LIMIT 100
"""
