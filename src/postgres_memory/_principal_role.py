"""The role whose rights principals have: what a server still needs of it before the schema can be migrated.

Roles are of the whole server: one that is there is taken as it is, also where another database's migration makes it at
the same moment, and nothing here drops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._sql.names import quote, quote_text

if TYPE_CHECKING:
    from sqlalchemy import Connection as SyncConnection

#: From this version on, being a member of a role does not give the right to act as it.
_SET_OPTION = 160000


def missing_role_statements(
    connection: SyncConnection, schema: str, extension_schema: str, role: str
) -> list[str]:
    """Return the statements that give the server the role, and whoever migrates the right to act as it.

    None where the policies are there, since whoever made them had the role, or are for another role to make.
    """
    if not _makes_policies(connection, schema):
        return []
    version, superuser, there, me = connection.exec_driver_sql(
        "SELECT pg_catalog.current_setting('server_version_num')::int, "
        "(SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user), "
        "EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1), current_user::text",
        (role,),
    ).one()
    statements = [] if there else [f"CREATE ROLE {quote(role)}"]
    if not superuser and not (there and _may_act(connection, role, version)):
        statements.append(_grant(role, str(me), version))
    if not (there and _may_enter(connection, role, extension_schema)) and extension_schema not in (
        "public",
        schema,
    ):
        statements.append(f"GRANT USAGE ON SCHEMA {quote(extension_schema)} TO {quote(role)}")
    return statements


def _makes_policies(connection: SyncConnection, schema: str) -> bool:
    """Say whether the policies are missing and the tables, if there are any, are this role's own."""
    query = (
        "SELECT coalesce(pg_catalog.bool_and(pg_catalog.pg_has_role(c.relowner, 'USAGE') "
        "AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid)), true) "
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = $1 AND c.relname = 'memories'"
    )
    return bool(connection.exec_driver_sql(query, (schema,)).scalar_one())


def _may_act(connection: SyncConnection, role: str, version: int) -> bool:
    right = "SET" if version >= _SET_OPTION else "MEMBER"
    query = "SELECT pg_catalog.pg_has_role(current_user, $1::name, $2)"
    return bool(connection.exec_driver_sql(query, (role, right)).scalar_one())


def _may_enter(connection: SyncConnection, role: str, schema: str) -> bool:
    query = (
        "SELECT coalesce(pg_catalog.bool_and(pg_catalog.has_schema_privilege($1::name, oid, 'USAGE')), false) "
        "FROM pg_catalog.pg_namespace WHERE nspname = $2"
    )
    return bool(connection.exec_driver_sql(query, (role, schema)).scalar_one())


def _grant(role: str, member: str, version: int) -> str:
    options = " WITH INHERIT FALSE, SET TRUE" if version >= _SET_OPTION else ""
    return f"GRANT {quote(role)} TO {quote(member)}{options}"


def preparing_role_statements(schema: str, extension_schema: str, role: str) -> list[str]:
    """Return the same for a script: it changes nothing where nothing is missing."""
    name, quoted = quote_text(role), quote(role)
    create = f"""
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {name}) THEN
    CREATE ROLE {quoted};
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;
END"""
    grant = f"""
DECLARE
  named boolean := pg_catalog.current_setting('server_version_num')::int >= {_SET_OPTION};
BEGIN
  IF NOT pg_catalog.pg_has_role(current_user, {name}, CASE WHEN named THEN 'SET' ELSE 'MEMBER' END) THEN
    EXECUTE pg_catalog.format('GRANT %I TO %I', {name}, current_user)
      || CASE WHEN named THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END;
  END IF;
END"""
    statements = [f"DO {quote_text(create)}", f"DO {quote_text(grant)}"]
    if extension_schema not in ("public", schema):
        statements.append(f"GRANT USAGE ON SCHEMA {quote(extension_schema)} TO {quoted}")
    return statements
