"""Roles that may not, extensions that live elsewhere, encodings and names."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.names import quote
from postgres_memory._sql.policies import PRINCIPAL_ROLE
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import DatabaseError, MigrationError, NotMigratedError
from postgres_memory.migrations import migrate
from tests.conftest import Database, Server

from .alembic_runs import revisions
from .conftest import MakeDatabase

ADVICE = "an administrator runs in this database: "

_numbers = itertools.count(1)


@pytest.fixture
async def role(server: Server) -> AsyncIterator[str]:
    """A role that may log in and nothing else."""
    name = f"pm role {os.getpid()} {next(_numbers)}"
    await server.run(f"CREATE ROLE {quote(name)} LOGIN PASSWORD 'a'")
    yield name
    await server.run(f"DROP ROLE {quote(name)}")


@pytest.fixture
async def place(role: str, template: str, make_database: MakeDatabase) -> Database:
    """An empty database, made after the role so that it is dropped before it; the server has the role of principals."""
    assert role
    assert template
    return await make_database()


def granting(role: str) -> str:
    """What lets a role that is no superuser act as principals, from PostgreSQL 16."""
    return f'GRANT "{PRINCIPAL_ROLE}" TO "{role}" WITH INHERIT FALSE, SET TRUE;'


def dsn_as(database: Database, role: str) -> str:
    parts = urlsplit(database.dsn)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role.replace(' ', '%20')}:a@{host}"))


async def execute(database: Database, *statements: str) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetchval(database: Database, query: str, *arguments: object) -> object:
    connection = await asyncpg.connect(database.dsn)
    try:
        return await connection.fetchval(query, *arguments)
    finally:
        await connection.close()


async def refused(dsn: str, **options: str) -> str:
    """Migrate, and return the statements that the refusal asks an administrator to run."""
    with pytest.raises(MigrationError, match=ADVICE) as raised:
        await migrate(Dsn(dsn), **options)
    assert raised.value.schema == options.get("schema", "memory")
    return str(raised.value).partition(ADVICE)[2]


async def check_works(dsn: str, schema: str = "memory") -> None:
    async with PostgresMemory(dsn, schema=schema) as memory:
        await memory.store("the user likes tea", {"a": [1.5, None]})
        await memory.store("the user likes coffee")
        found = await memory.search("the user likes tea", limit=1)
        assert [(entry.content, entry.metadata, entry.score) for entry in found] == [
            ("the user likes tea", {"a": [1.5, None]}, 1.0)
        ]
        assert (await memory.verify()).ok
        await memory.clear()
        assert await memory.search("tea") == []


async def test_a_role_without_any_right(place: Database, role: str) -> None:
    dsn = dsn_as(place, role)
    advice = await refused(dsn)
    assert advice == (
        f'CREATE SCHEMA "memory" AUTHORIZATION "{role}"; CREATE EXTENSION vector SCHEMA "public"; '
        + granting(role)
    )
    await execute(place, advice)
    assert await migrate(Dsn(dsn)) == REVISION
    await check_works(dsn)


async def test_a_role_without_create_extension(place: Database, role: str) -> None:
    await execute(place, f"GRANT CREATE ON DATABASE {quote(place.name)} TO {quote(role)}")
    dsn = dsn_as(place, role)
    advice = await refused(dsn)
    assert advice == f'CREATE EXTENSION vector SCHEMA "public"; {granting(role)}'
    assert await fetchval(place, "SELECT to_regnamespace('memory')::text") is None
    await execute(place, advice)
    assert await migrate(Dsn(dsn)) == REVISION
    await check_works(dsn)


async def test_a_role_that_may_not_create_a_schema(place: Database, role: str) -> None:
    await execute(place, "CREATE EXTENSION vector")
    dsn = dsn_as(place, role)
    expected = f'CREATE SCHEMA "A ""b""" AUTHORIZATION "{role}"; {granting(role)}'
    assert await refused(dsn, schema='A "b"') == expected


async def test_the_schema_of_the_extension_is_missing_too(place: Database, role: str) -> None:
    dsn = dsn_as(place, role)
    advice = await refused(dsn, extension_schema="extensions")
    assert advice == (
        f'CREATE SCHEMA "memory" AUTHORIZATION "{role}"; CREATE SCHEMA "extensions"; '
        f'GRANT USAGE ON SCHEMA "extensions" TO "{role}"; CREATE EXTENSION vector SCHEMA "extensions"; '
        f'{granting(role)} GRANT USAGE ON SCHEMA "extensions" TO "{PRINCIPAL_ROLE}";'
    )
    await execute(place, advice)
    assert await migrate(Dsn(dsn)) == REVISION
    await check_works(dsn)


async def test_a_role_that_may_not_enter_the_extensions_schema(place: Database, role: str) -> None:
    await execute(
        place,
        "CREATE SCHEMA extensions",
        "CREATE EXTENSION vector SCHEMA extensions",
        f"CREATE SCHEMA memory AUTHORIZATION {quote(role)}",
        granting(role),
        f"GRANT USAGE ON SCHEMA extensions TO {quote(PRINCIPAL_ROLE)}",
    )
    with pytest.raises(MigrationError, match=r"permission denied for schema extensions \(SQLSTATE 42501\)"):
        await migrate(Dsn(dsn_as(place, role)))


async def test_a_role_that_only_reads_and_writes_may_ask_for_a_migration_that_is_done(
    place: Database, role: str
) -> None:
    await migrate(Dsn(place.dsn))
    await execute(
        place,
        f"GRANT USAGE ON SCHEMA memory TO {quote(role)}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memory TO {quote(role)}",
    )
    assert await migrate(Dsn(dsn_as(place, role))) == REVISION
    async with PostgresMemory(dsn_as(place, role)) as memory:  # which policies bind, as health() reports
        assert not (await memory.health()).acts_as_owner
        assert await memory.search("tea") == []
        with pytest.raises(DatabaseError, match="permission denied"):
            await memory.store("the user likes tea")


async def test_a_role_that_does_not_own_the_schema(place: Database, role: str) -> None:
    await migrate(Dsn(place.dsn), revision="0003")
    await execute(
        place,
        f"GRANT USAGE, CREATE ON SCHEMA memory TO {quote(role)}",
        f"GRANT SELECT ON memory.alembic_version TO {quote(role)}",
    )
    with pytest.raises(MigrationError, match=r"permission denied.* as the role that owns the schema"):
        await migrate(Dsn(dsn_as(place, role)))


@pytest.mark.parametrize("extension_schema", ["extensions", 'Ext."x": 1'])
async def test_the_extension_is_there_in_another_schema(
    empty_database: Database, extension_schema: str
) -> None:
    await execute(
        empty_database,
        f"CREATE SCHEMA IF NOT EXISTS {quote(extension_schema)}",
        f"CREATE EXTENSION vector SCHEMA {quote(extension_schema)}",
    )
    assert await migrate(Dsn(empty_database.dsn)) == REVISION
    await check_works(empty_database.dsn)


async def test_an_extension_in_our_own_schema(empty_database: Database) -> None:
    assert await migrate(Dsn(empty_database.dsn), schema="m", extension_schema="m") == REVISION
    await check_works(empty_database.dsn, "m")


async def test_the_search_path_does_not_matter(empty_database: Database) -> None:
    await execute(
        empty_database,
        f"ALTER DATABASE {quote(empty_database.name)} SET search_path = ''",
        "CREATE SCHEMA extensions",
    )
    assert await migrate(Dsn(empty_database.dsn), extension_schema="extensions") == REVISION
    await check_works(empty_database.dsn)


async def test_functions_of_the_same_names_in_the_search_path_are_not_called(
    empty_database: Database,
) -> None:
    await execute(
        empty_database,
        "CREATE SCHEMA evil",
        "CREATE FUNCTION evil.octet_length(text) RETURNS int LANGUAGE sql IMMUTABLE RETURN 1 / 0",
        "CREATE FUNCTION evil.vector_norm(text) RETURNS int LANGUAGE sql IMMUTABLE RETURN 1 / 0",
        "CREATE FUNCTION evil.md5(bytea) RETURNS text LANGUAGE sql IMMUTABLE RETURN (1 / 0)::text",
        "CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql RETURN (1 / 0)::text",
        f"ALTER DATABASE {quote(empty_database.name)} SET search_path = evil, public",
    )
    assert await migrate(Dsn(empty_database.dsn)) == REVISION
    await check_works(empty_database.dsn)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_other_encodings_are_refused(make_database: MakeDatabase, encoding: str) -> None:
    database = await make_database(
        f"TEMPLATE template0 ENCODING '{encoding}' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    with pytest.raises(MigrationError, match=f"must be encoded in UTF8, this one is in {encoding}"):
        await migrate(Dsn(database.dsn))
    assert await fetchval(database, "SELECT to_regnamespace('memory')::text") is None
    memory = PostgresMemory(database.dsn)
    with pytest.raises(NotMigratedError):
        await memory.search("tea")
    await memory.close()


async def test_an_old_pgvector_is_refused(empty_database: Database) -> None:
    await execute(
        empty_database,
        "CREATE EXTENSION vector",
        "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'",
    )
    with pytest.raises(
        MigrationError, match=r"0\.7\.4; .* runs in this database: ALTER EXTENSION vector UPDATE"
    ):
        await migrate(Dsn(empty_database.dsn))


NAMES = [
    "public",
    "a.b",
    'it\'s "quoted"',
    "with space",
    ":colon ::cast :name",
    "100% %s %(name)s %%",
    "Ünïcødé 記憶 🧠",
    "UPPER",
    "select",
    "back\\slash\\:",
    "{braces} ${dollar} @extension@ $1",
    "semi;colon -- /* comment",
    "tab\tnewline\n",
    "x" * 63,
    "é" * 31,
]


@pytest.mark.parametrize("schema", NAMES)
async def test_schemas_of_any_name(empty_database: Database, schema: str) -> None:
    assert await migrate(Dsn(empty_database.dsn), schema=schema, revision=revisions()[-2]) == revisions()[-2]
    assert await migrate(Dsn(empty_database.dsn), schema=schema) == REVISION
    found = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = 'memories'"
    assert await fetchval(empty_database, found, schema) == 1
    await check_works(empty_database.dsn, schema)


@pytest.mark.parametrize("schema", ["", "x" * 64, "é" * 32, "pg_memory", "a\0b"])
async def test_names_that_postgresql_cannot_hold(schema: str) -> None:
    """Refused before anything is asked of a server: there is none."""
    with pytest.raises(ValueError, match=r"^schema: "):
        await migrate(Dsn("postgresql://nowhere.invalid/a"), schema=schema)
