"""What `doctor` and `stats` ask system catalogs of our tables and their indexes."""

from __future__ import annotations

from .names import quote, quote_text

#: The tables $2 of the schema $1: sizes, what VACUUM and ANALYZE have left, and how old the oldest row may be.
TABLES = """
SELECT c.relname::text AS name, c.reltuples::float8 AS rows, c.relpages AS pages,
       pg_catalog.pg_relation_size(c.oid) AS bytes, pg_catalog.pg_indexes_size(c.oid) AS indexes_bytes,
       CASE WHEN c.reltoastrelid = 0 THEN 0 ELSE pg_catalog.pg_total_relation_size(c.reltoastrelid) END AS toast_bytes,
       coalesce(s.n_live_tup, 0) AS live, coalesce(s.n_dead_tup, 0) AS dead,
       coalesce(s.n_mod_since_analyze, 0) AS changed,
       coalesce(s.last_analyze, s.last_autoanalyze) IS NOT NULL OR c.reltuples >= 0 AND EXISTS (
           SELECT FROM pg_catalog.pg_stats p WHERE p.schemaname = $1 AND p.tablename = c.relname
       ) AS analysed,
       (SELECT pg_catalog.sum(p.avg_width * (1 - p.null_frac)) FROM pg_catalog.pg_stats p
        WHERE p.schemaname = $1 AND p.tablename = c.relname)::float8 AS row_bytes,
       CASE WHEN c.relkind = 'r' THEN greatest(pg_catalog.age(c.relfrozenxid), pg_catalog.age(t.relfrozenxid)) END
           AS transaction_age,
       CASE WHEN c.relkind = 'r' THEN greatest(pg_catalog.mxid_age(c.relminmxid), pg_catalog.mxid_age(t.relminmxid)) END
           AS multixact_age,
       'autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions)
           AS autovacuum_off,
       coalesce(c.reloptions, '{}') AS options
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class t ON t.oid = c.reltoastrelid
LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
WHERE n.nspname = $1 AND c.relname = ANY ($2::text[]) AND c.relkind IN ('r', 'p')
ORDER BY 1
"""

#: The indexes of the tables of the schema $1. ``worked_on`` where somebody may be building one on the same table: who
#: does holds this lock, as VACUUM and ANALYZE do.
INDEXES = """
SELECT c.relname::text AS name, t.relname::text AS on_table, i.indisunique AS is_unique, am.amname::text AS method,
       i.indnkeyatts::int AS keys, i.indpred IS NOT NULL AS partial,
       i.indisvalid AND i.indisready AND i.indislive AS valid,
       coalesce(c.reloptions, '{}') AS options, pg_catalog.pg_relation_size(c.oid) AS bytes,
       coalesce(s.idx_scan, 0) AS scans,
       EXISTS (
           SELECT FROM pg_catalog.pg_locks l
           WHERE l.locktype = 'relation' AND l.relation = i.indrelid AND l.granted
             AND l.mode = 'ShareUpdateExclusiveLock' AND l.pid <> pg_catalog.pg_backend_pid()
             AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
       ) AS worked_on
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
JOIN pg_catalog.pg_am am ON am.oid = c.relam
LEFT JOIN pg_catalog.pg_stat_all_indexes s ON s.indexrelid = c.oid
WHERE n.nspname = $1 AND t.relkind IN ('r', 'p')
ORDER BY 1
"""

#: The values that a column $3 of the table $2 has most often, with their share of its rows, as ANALYZE found them.
COMMON_VALUES = """
SELECT value, share::float8 FROM pg_catalog.pg_stats p,
    ROWS FROM (pg_catalog.unnest(p.most_common_vals::text::text[]), pg_catalog.unnest(p.most_common_freqs))
        AS common(value, share)
WHERE p.schemaname = $1 AND p.tablename = $2 AND p.attname = $3
ORDER BY share DESC LIMIT 20
"""

#: Whether pgstattuple is there and may be asked, and in which schema.
PENDING_FUNCTION = """
SELECT n.nspname::text AS schema
FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid AND p.proname = 'pgstatginindex'
WHERE e.extname = 'pgstattuple' AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
"""


def pending_pages(function_schema: str, index: str) -> str:
    """Return the query for how many pages of a GIN index, by its quoted name, wait to be merged."""
    function = f"{quote(function_schema)}.pgstatginindex"
    return f"SELECT pending_pages FROM {function}({quote_text(index)}::pg_catalog.regclass)"
