"""What a change feed has beside its events: how it is told of, and what refuses statements that write none."""

from __future__ import annotations

import hashlib

from .names import qualified

#: The channel on which transactions that wrote events say so; what they say is a `payload`.
CHANNEL = "postgres_memory_changes"
#: The error of a statement that writes no events where there is a feed.
FEED_IS_ON = "PMCF1"


def payload(schema: str, namespace: str) -> str:
    """Return what is said on `CHANNEL` of a namespace: no name, since every login of the database may listen."""
    return hashlib.sha256(f"{schema}.{namespace}".encode()).hexdigest()


def refusing_function(schema: str) -> str:
    """Return the statement that creates the function that raises `FEED_IS_ON`."""
    return f"""\
CREATE FUNCTION {qualified(schema, "refuse_without_events")}() RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$BEGIN
  RAISE EXCEPTION 'this namespace has a change feed, and the statement writes no events' USING ERRCODE = '{FEED_IS_ON}';
END$function$"""


def guard(schema: str, namespace: str) -> str:
    """Return the SQL that fails where ``namespace`` has a feed; it has no parameters, to go along with a BEGIN."""
    settings = qualified(schema, "namespace_settings")
    return (
        f"SELECT CASE WHEN changes_from IS NOT NULL THEN {qualified(schema, 'refuse_without_events')}() END "
        f"FROM {settings} "
        f"WHERE namespace = pg_catalog.convert_from(pg_catalog.decode('{namespace.encode().hex()}', 'hex'), 'UTF8')"
    )
