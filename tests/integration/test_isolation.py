"""`check_isolation`, and the roles and logins it looks at."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from urllib.parse import quote as percent
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import MemoryPermissions, PostgresMemory
from postgres_memory._sql.names import quote
from postgres_memory._sql.policies import PRINCIPAL_ROLE
from postgres_memory.config import Dsn
from postgres_memory.errors import (
    ConfigurationError,
    UsageError,
)
from postgres_memory.migrations import migrate
from tests.conftest import Database, Server

from .permission_model import TABLES, execute

_numbers = itertools.count(1)


@pytest.fixture
async def name(server: Server) -> AsyncIterator[str]:
    """The name of a role, which the test may make; dropped behind it, after the database of the test."""
    name = f'pm\'s "role" {os.getpid()} {next(_numbers)}'
    yield name
    await server.run(f"DROP ROLE IF EXISTS {quote(name)}")


def dsn_as(database: Database, login: str) -> str:
    parts = urlsplit(database.direct_dsn)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{percent(login)}:a@{host}"))


@pytest.fixture
async def own_role(name: str, empty_database: Database) -> Database:
    """A database whose principals have a role of its own, which a test may spoil."""
    await migrate(Dsn(empty_database.direct_dsn), principal_role=name)
    return empty_database


async def test_a_migrated_database_isolates(memory: PostgresMemory) -> None:
    found = await memory.check_isolation()
    assert found.ok, found.problems
    assert found.attempts > 100
    assert found.role == PRINCIPAL_ROLE
    assert any("is a superuser" in warning for warning in found.warnings)
    assert await memory.namespaces() == []


SPOILS = {
    **{f"off {table}": f"ALTER TABLE memory.{table} DISABLE ROW LEVEL SECURITY" for table in TABLES},
    **{
        f"read {table}": f"ALTER POLICY {table}_{'all' if table == 'idempotency_keys' else 'select'} "
        f"ON memory.{table} USING (true)"
        for table in TABLES
    },
    "another policy": "CREATE POLICY spare ON memory.memories FOR SELECT USING (true)",
    "update": "ALTER POLICY memories_update ON memory.memories USING (true); "
    "ALTER POLICY memories_select ON memory.memories USING (namespace = memory.principal_namespace())",
    "delete": "ALTER POLICY memories_delete ON memory.memories USING (true); "
    "ALTER POLICY memories_select ON memory.memories USING (namespace = memory.principal_namespace())",
    "insert": "ALTER POLICY memories_insert ON memory.memories WITH CHECK (true)",
    "no namespace": "ALTER POLICY memories_select ON memory.memories USING (owner = memory.principal())",
    "everybody is one": "CREATE OR REPLACE FUNCTION memory.principal() RETURNS text LANGUAGE sql STABLE "
    "RETURN 'postgres-memory owner'",
    "nobody is one": "CREATE OR REPLACE FUNCTION memory.principal() RETURNS text LANGUAGE sql STABLE "
    "RETURN NULL::text",
    "lists": f"GRANT UPDATE (readers) ON memory.memories TO {PRINCIPAL_ROLE}",
    "owners": "GRANT UPDATE (owner) ON memory.memories TO PUBLIC",
    "lists by function": "CREATE OR REPLACE FUNCTION memory.set_access(namespace text, id text, readers text[], "
    "writers text[]) RETURNS boolean LANGUAGE sql VOLATILE RETURN true",
    "writers by function": "CREATE OR REPLACE FUNCTION memory.may_write(namespace text, id text) RETURNS boolean "
    "LANGUAGE sql STABLE RETURN true",
    "readers write": "ALTER POLICY memories_update ON memory.memories "
    "USING (namespace = memory.principal_namespace()) WITH CHECK (true)",
    "readers delete": "ALTER POLICY memories_delete ON memory.memories "
    "USING (namespace = memory.principal_namespace())",
    "readers write embeddings": "ALTER POLICY memory_embeddings_update ON memory.memory_embeddings "
    "USING (namespace = memory.principal_namespace())",
    "one end read": "ALTER POLICY memory_relations_select ON memory.memory_relations USING (EXISTS (SELECT "
    "FROM memory.memories m WHERE m.namespace = memory_relations.namespace AND m.id = source_id))",
    "one end written": "ALTER POLICY memory_relations_insert ON memory.memory_relations WITH CHECK (EXISTS (SELECT "
    "FROM memory.memories m WHERE m.namespace = memory_relations.namespace AND m.id = source_id))",
    "replaced": "ALTER POLICY memories_insert ON memory.memories WITH CHECK (owner = memory.principal())",
    "keys": "ALTER POLICY idempotency_keys_all ON memory.idempotency_keys WITH CHECK (true)",
    **{
        f"add {table}": f"ALTER POLICY {table}_insert ON memory.{table} WITH CHECK (true)"
        for table in TABLES
        if table not in ("memory_access", "idempotency_keys")
    },
    **{
        f"backend's {table}": f"CREATE POLICY spare ON memory.{table} USING (true); "
        f"GRANT SELECT ON memory.{table} TO {PRINCIPAL_ROLE}"
        for table in ("known_words", "write_tokens")
    },
    **{
        f"of any namespace {table}": f"ALTER POLICY {table}_select ON memory.{table} USING (true)"
        for table in ("embedding_spaces", "namespace_settings")
    },
    "truncate": f"GRANT TRUNCATE ON memory.session_messages TO {PRINCIPAL_ROLE}",
    "trigger": "GRANT TRIGGER ON memory.memories TO PUBLIC",
    "no right": f"REVOKE SELECT ON memory.memories FROM {PRINCIPAL_ROLE}",
}


@pytest.mark.parametrize("spoilt", SPOILS)
async def test_a_policy_that_is_spoilt_is_found(
    database: Database, memory: PostgresMemory, spoilt: str
) -> None:
    await execute(database, *SPOILS[spoilt].split("; "))
    found = await memory.check_isolation()
    assert not found.ok
    assert found.problems
    assert await memory.namespaces() == []


#: What makes a role one that nothing binds. A member in whatever way may act as it, or give itself the right to.
UNBOUND = [
    ("ALTER ROLE {0} BYPASSRLS", "has BYPASSRLS"),
    ("ALTER ROLE {0} SUPERUSER", "is a superuser"),
    ("ALTER ROLE {0} REPLICATION", "has REPLICATION"),
    ("GRANT {owner} TO {0}", "is a member of"),
    ("GRANT {owner} TO {0} WITH INHERIT FALSE, SET TRUE", "is a member of"),
    ("GRANT {owner} TO {0} WITH INHERIT FALSE, SET FALSE, ADMIN TRUE", "is a member of"),
    ("GRANT pg_read_server_files TO {0}", "opens files of the server"),
    ("ALTER TABLE memory.known_words OWNER TO {0}", "owns tables of the schema"),
    ("GRANT CREATE ON SCHEMA public TO {0}", "may create in schema 'public'"),
    ("GRANT CREATE ON SCHEMA memory TO {0}", "may create in schema 'memory'"),
    ("GRANT CREATE ON DATABASE {database} TO {0}", "may create schemas in this database"),
]


@pytest.mark.parametrize(("change", "problem"), UNBOUND)
async def test_a_role_that_nothing_binds_is_found(
    own_role: Database, name: str, change: str, problem: str
) -> None:
    async with PostgresMemory(own_role.dsn, principal_role=name) as memory:
        assert (await memory.check_isolation()).ok
        owner = quote(str((await memory.health()).owner))
        await execute(own_role, change.format(quote(name), owner=owner, database=quote(own_role.name)))
        found = await memory.check_isolation()
        await execute(own_role, f"REASSIGN OWNED BY {quote(name)} TO {owner}")
    assert not found.ok
    assert any(problem in one for one in found.problems)


async def test_a_role_that_is_not_there(database: Database) -> None:
    async with PostgresMemory(database.dsn, principal_role="nobody's") as memory:
        found = await memory.check_isolation()
        assert [problem for problem in found.problems if "has no role" in problem]
        with pytest.raises(ConfigurationError, match="has no role"):
            await memory.as_principal("alice").count()


OTHERS = ("embedding_spaces", "namespace_settings", "known_words", "write_tokens", "changes")


async def test_a_backend_that_may_not_act_as_the_role(own_role: Database, name: str, server: Server) -> None:
    """As its owner it does all else."""
    login = f"pm backend {os.getpid()} {next(_numbers)}"
    await execute(
        own_role,
        f"CREATE ROLE {quote(login)} LOGIN PASSWORD 'a'",
        f"GRANT USAGE ON SCHEMA memory TO {quote(login)}",
        *(f"ALTER TABLE memory.{table} OWNER TO {quote(login)}" for table in (*TABLES, *OTHERS)),
        f"GRANT SELECT ON memory.alembic_version TO {quote(login)}",
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA memory TO {quote(login)}",
    )
    try:
        async with PostgresMemory(dsn_as(own_role, login), principal_role=name) as memory:
            await memory.store("x")
            with pytest.raises(ConfigurationError, match=r"may not act as the role .* GRANT "):
                await memory.as_principal("alice").count()
            assert not (await memory.check_isolation()).ok
            await execute(own_role, f"GRANT {quote(name)} TO {quote(login)} WITH INHERIT FALSE, SET TRUE")
            assert await memory.as_principal("alice").count() == 0
            found = await memory.check_isolation()
            assert found.ok, found.problems
            assert found.warnings == ()
    finally:
        await execute(own_role, f"DROP OWNED BY {quote(login)} CASCADE")
        await server.run(f"DROP ROLE {quote(login)}")


@pytest.fixture
async def login(name: str, database: Database) -> str:
    """A login of a principal's own."""
    await execute(
        database,
        f"CREATE ROLE {quote(name)} LOGIN PASSWORD 'a'",
        f"GRANT {PRINCIPAL_ROLE} TO {quote(name)}",
    )
    return dsn_as(database, name)


async def test_a_login_is_its_own_principal_whatever_it_sets(
    database: Database, memory: PostgresMemory, name: str, login: str
) -> None:
    own = await memory.as_principal(name).add("its own")
    await memory.as_principal("alice").add("not its own")
    assert (await memory.check_isolation(login=login)).ok
    connection = await asyncpg.connect(login)
    try:
        read = "SELECT id FROM memory.memories"
        assert await connection.fetch(read) == []
        await connection.execute("SET postgres_memory.namespace = 'default'")
        for setting in ("", "alice", "*", "system"):
            await connection.execute(f"SET postgres_memory.principal = '{setting}'")
            assert [row["id"] for row in await connection.fetch(read)] == [own.id]
        await connection.execute(f"SET ROLE {PRINCIPAL_ROLE}")
        assert [row["id"] for row in await connection.fetch(read)] == [own.id]
    finally:
        await connection.close()


async def test_logins_that_nothing_binds_are_found(
    database: Database, memory: PostgresMemory, name: str, login: str
) -> None:
    assert (await memory.check_isolation(login=login)).ok
    found = await memory.check_isolation(login=database.direct_dsn)
    assert [problem for problem in found.problems if "is a superuser" in problem]


@pytest.mark.parametrize(("change", "problem"), UNBOUND)
async def test_a_login_that_can_get_round_policies_is_found(
    database: Database, memory: PostgresMemory, name: str, login: str, change: str, problem: str
) -> None:
    owner = quote(str((await memory.health()).owner))
    await execute(database, change.format(quote(name), owner=owner, database=quote(database.name)))
    found = await memory.check_isolation(login=login)
    await execute(database, f"REASSIGN OWNED BY {quote(name)} TO {owner}", f"DROP OWNED BY {quote(name)}")
    assert not found.ok
    assert any(problem in one and repr(name) in one for one in found.problems), found.problems


async def test_the_login_of_a_principal_is_nobodys_backend(memory: PostgresMemory, login: str) -> None:
    await memory.store("x")
    async with PostgresMemory(login) as bound:
        assert await bound.search("x") == []
        assert not (await bound.health()).ok
        for call in (bound.as_principal("alice").search("x"), bound.as_principal("alice").count()):
            with pytest.raises(UsageError, match="is for the trusted backend"):
                await call


async def test_a_login_that_bypasses_policies_is_nobodys_backend(
    database: Database, memory: PostgresMemory, name: str, login: str
) -> None:
    """Policies take it for itself, so that every principal would be that one, and read what is its own."""
    await memory.as_principal(name).add("of the principal of the login's name")
    await execute(database, f"ALTER ROLE {quote(name)} BYPASSRLS")
    async with PostgresMemory(login) as bypassing:
        assert await bypassing.count() == 1
        for call in (bypassing.as_principal("alice").count(), bypassing.as_principal("alice").search("name")):
            with pytest.raises(UsageError, match="is for the trusted backend"):
                await call


#: What SQL of a principal's own can store, and no verb does.
UNRANKABLE = [
    "UPDATE memory.memories SET place = 9223372036854775807",
    "UPDATE memory.memories SET place = -9223372036854775808",
    "UPDATE memory.memory_hash_embeddings SET embedding = array_fill(3e38, ARRAY[32])::real[]::public.vector",
]


@pytest.mark.parametrize("statement", UNRANKABLE)
async def test_what_a_login_stores_does_not_end_the_searches_of_others(
    memory: PostgresMemory, name: str, login: str, statement: str
) -> None:
    alice = memory.as_principal("alice")
    hers = await alice.add("the kettle sings", thread_id="t")
    for thread in (None, "t"):
        everyone = MemoryPermissions(readers=("*",))
        await memory.as_principal(name).add("a kettle?", thread_id=thread, permissions=everyone)
    connection = await asyncpg.connect(login)
    try:
        await connection.execute("SET postgres_memory.namespace = 'default'")
        assert await connection.execute(statement) == "UPDATE 2"
    finally:
        await connection.close()
    for seen in (memory, alice):
        assert hers.content in [entry.content for entry in await seen.search("kettle")]
        for ranking in ("hash", "hybrid"):
            assert hers.id in [hit.record.id for hit in await seen.recall("kettle", ranking=ranking)]
        assert hers.id in [hit.record.id for hit in await seen.recall("kettle", exact=True)]
        long = "kettle " * 20_000
        assert hers.content in [entry.content for entry in await seen.search(long)]
