"""Who may read and write what: the functions, policies and rights of principals, each statement by itself.

A principal is named by the setting ``postgres_memory.principal`` of a transaction, and its namespace by
``postgres_memory.namespace``, where the session belongs to the trusted backend: to a login that has the rights of the
owner of the tables. Any other login is its own principal, whatever it sets. Without a principal no row is seen.

Row-level security is enabled, not forced: the owner, whom it does not bind, loads by COPY. Each policy begins with the
namespace, which is null where there is no principal, so that nothing else has to think of that. A scalar subquery is
evaluated once per statement.
"""

from __future__ import annotations

from .names import qualified, quote, quote_text

#: The role whose rights a principal has, where nobody says otherwise.
PRINCIPAL_ROLE = "postgres_memory_principal"
PRINCIPAL_SETTING = "postgres_memory.principal"
NAMESPACE_SETTING = "postgres_memory.namespace"
#: The parameter of a statement that names the principal.
PRINCIPAL = "principal"

#: Whose a memory is if nobody says, and what a list calls everyone. No principal has these names.
SYSTEM, EVERYONE = "system", "*"

#: Columns of `memories` that a principal changes; readers and writers its owner changes by `set_access`.
_CHANGED = (
    "updated_at, expires_at, importance, confidence, version, memory_type, status, content, metadata, tags, thread_id, "
    "session_id, content_key, place"
)
_RIGHTS = {
    "memories": (
        "SELECT",
        f"INSERT (namespace, id, created_at, language, supersedes, owner, readers, writers, {_CHANGED})",
        f"UPDATE ({_CHANGED})",
        "DELETE",
    ),
    "memory_hash_embeddings": (
        "SELECT",
        "INSERT (namespace, seq, status, expires_at, embedding)",
        "UPDATE (status, expires_at, embedding)",
    ),
    "memory_embeddings": ("SELECT", "INSERT", "UPDATE (embedding, digest)"),
    "memory_access": ("SELECT",),
    "memory_relations": ("SELECT", "INSERT", "UPDATE (confidence, metadata)", "DELETE"),
    "session_messages": (
        "SELECT",
        "INSERT (namespace, session_id, created_at, message, owner, readers, writers)",
        "DELETE",
    ),
    "idempotency_keys": ("SELECT", "INSERT", "UPDATE (memory_id, payload, expires_at)"),
    "namespace_settings": ("SELECT",),
    # To hold a space against being dropped, which takes the right to update something of it.
    "embedding_spaces": ("SELECT", "UPDATE (status)"),
    # Of these a principal writes none: its statements name the table, which takes the right, and leave no token.
    "write_tokens": ("INSERT (namespace, token, changed)",),
    # What a principal changes is told, and what it tells of it does not read.
    "changes": ("INSERT (namespace, version, kind, memory_id, target_id, relation_type, label)",),
    "alembic_version": ("SELECT",),
}


def principal_functions(schema: str, role: str) -> list[str]:
    """Return the statements that create the functions that policies and principals call."""
    principal, memories = qualified(schema, "principal"), qualified(schema, "memories")
    may_write, set_access = qualified(schema, "may_write"), qualified(schema, "set_access")
    as_owner = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
    this = f"m.namespace = $1 AND m.id = $2 AND {_of_namespace(schema, 'm.')}"
    return [
        f"""\
CREATE FUNCTION {principal}() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
  SELECT nullif(nullif(nullif(
    CASE WHEN pg_catalog.pg_has_role(SESSION_USER, c.relowner, 'USAGE')
      THEN pg_catalog.current_setting('{PRINCIPAL_SETTING}', true) ELSE CAST(SESSION_USER AS text) END,
    ''), '{SYSTEM}'), '{EVERYONE}')
  FROM pg_catalog.pg_class c WHERE c.oid = CAST({quote_text(memories)} AS pg_catalog.regclass))""",
        f"""\
CREATE FUNCTION {qualified(schema, "principal_namespace")}() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN {principal}() IS NOT NULL
  THEN nullif(pg_catalog.current_setting('{NAMESPACE_SETTING}', true), '') END""",
        # What a policy of a table cannot ask of the table itself, this asks as its owner.
        f"""\
CREATE FUNCTION {may_write}(namespace text, id text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE {as_owner}
RETURN EXISTS (SELECT FROM {memories} m WHERE {this} AND {_writable(schema, "m.")})""",
        # The rights of the role leave these columns out, since a policy cannot compare a row with what it was.
        f"""\
CREATE FUNCTION {set_access}(namespace text, id text, readers text[], writers text[]) RETURNS boolean
LANGUAGE sql VOLATILE {as_owner}
AS $function$
  UPDATE {memories} AS m SET readers = $3, writers = $4
  WHERE {this} AND m.owner = (SELECT {principal}())
  RETURNING true
$function$""",
        f"REVOKE ALL ON FUNCTION {may_write}(text, text) FROM PUBLIC",
        f"REVOKE ALL ON FUNCTION {set_access}(text, text, text[], text[]) FROM PUBLIC",
        f"GRANT EXECUTE ON FUNCTION {may_write}(text, text) TO {quote(role)}",
        f"GRANT EXECUTE ON FUNCTION {set_access}(text, text, text[], text[]) TO {quote(role)}",
    ]


def principal_policies(schema: str) -> list[str]:
    """Return the statements that create the policies and enable them."""
    statements = []
    for table, policies in _policies(schema).items():
        name = qualified(schema, table)
        for command, conditions in policies.items():
            statements.append(f"CREATE POLICY {table}_{command.lower()} ON {name} FOR {command} {conditions}")
        statements.append(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    return statements


def principal_rights(schema: str, role: str) -> list[str]:
    """Return the statements that give the role its rights."""
    statements = [f"GRANT USAGE ON SCHEMA {quote(schema)} TO {quote(role)}"]
    for table, rights in _RIGHTS.items():
        statements.append(f"GRANT {', '.join(rights)} ON {qualified(schema, table)} TO {quote(role)}")
    return statements


def _policies(schema: str) -> dict[str, dict[str, str]]:
    here, readable, writable = _of_namespace(schema), _readable(schema), _writable(schema)
    own = f"owner = (SELECT {qualified(schema, 'principal')}())"
    held = _holds_its_own_content()
    return {
        "memories": {
            "SELECT": f"USING ({here} AND {readable})",
            "INSERT": f"WITH CHECK ({here} AND {own} AND {held} AND {_replaces_what_it_may_write(schema)})",
            "UPDATE": f"USING ({here} AND {writable}) WITH CHECK ({here} AND {writable} AND {held})",
            "DELETE": f"USING ({here} AND {writable})",
        },
        "memory_hash_embeddings": _of_memory(schema, "memory_hash_embeddings", "seq"),
        "memory_embeddings": _of_memory(schema, "memory_embeddings", "seq"),
        "memory_access": {"SELECT": f"USING ({here} AND {_memory(schema, 'memory_access', 'id', 'id')})"},
        "memory_relations": _of_both_ends(schema),
        "session_messages": {
            "SELECT": f"USING ({here} AND {readable})",
            "INSERT": f"WITH CHECK ({here} AND {own})",
            "DELETE": f"USING ({here} AND {writable})",
        },
        "idempotency_keys": {"ALL": f"USING ({here} AND {own})"},
        "namespace_settings": {"SELECT": f"USING ({here})"},
        # Who writes a vector locks its space, and may not change it.
        "embedding_spaces": {"SELECT": f"USING ({here})", "UPDATE": f"USING ({here}) WITH CHECK (false)"},
        "write_tokens": {},
        "known_words": {},
        "changes": {"INSERT": f"WITH CHECK ({here})"},
    }


def _of_memory(schema: str, table: str, key: str) -> dict[str, str]:
    """Let what belongs to a memory be read with it, and written by those who may write it."""
    here = _of_namespace(schema)
    written = f"({here} AND {_memory(schema, table, key, key, _writable(schema, 'm.'))})"
    return {
        "SELECT": f"USING ({here} AND {_memory(schema, table, key, key)})",
        "INSERT": f"WITH CHECK {written}",
        "UPDATE": f"USING {written}",
    }


def _of_both_ends(schema: str) -> dict[str, str]:
    """Let a relation be read by those who may read both ends, and written by those of them who may write its source."""
    here, table = _of_namespace(schema), "memory_relations"
    target = _memory(schema, table, "id", "target_id")
    written = (
        f"({here} AND {_memory(schema, table, 'id', 'source_id', _writable(schema, 'm.'))} AND {target})"
    )
    return {
        "SELECT": f"USING ({here} AND {_memory(schema, table, 'id', 'source_id')} AND {target})",
        "INSERT": f"WITH CHECK {written}",
        "UPDATE": f"USING {written}",
        "DELETE": f"USING {written}",
    }


def _memory(schema: str, table: str, key: str, column: str, condition: str = "") -> str:
    """Say that the memory a row belongs to is there to be read, by the policy of memories, and meets ``condition``."""
    return (
        f"EXISTS (SELECT FROM {qualified(schema, 'memories')} m WHERE m.namespace = {table}.namespace "
        f"AND m.{key} = {table}.{column}{condition and f' AND {condition}'})"
    )


def _of_namespace(schema: str, prefix: str = "") -> str:
    return f"{prefix}namespace = (SELECT {qualified(schema, 'principal_namespace')}())"


def _readable(schema: str, prefix: str = "") -> str:
    return f"({_writable(schema, prefix)} OR {prefix}readers && {_names(schema)})"


def _writable(schema: str, prefix: str = "") -> str:
    owned = f"{prefix}owner = (SELECT {qualified(schema, 'principal')}())"
    return f"({owned} OR {prefix}writers && {_names(schema)})"


def _names(schema: str) -> str:
    """Return the names under which a list lets a principal in."""
    return f"(SELECT ARRAY[{qualified(schema, 'principal')}(), '*'])"


def _holds_its_own_content() -> str:
    """Say that a content key is that of owner and content, or one let go: nobody occupies another's."""
    content = "pg_catalog.convert_to({0}, 'UTF8')"
    whole = f"{content.format('owner')} || '\\x00'::bytea || {content.format('content')}"
    return (
        f"(content_key IS NULL OR content_key = pg_catalog.sha256({whole}) "
        "OR content_key = pg_catalog.int8send(seq))"
    )


def _replaces_what_it_may_write(schema: str) -> str:
    return f"(supersedes IS NULL OR {qualified(schema, 'may_write')}(namespace, supersedes))"
