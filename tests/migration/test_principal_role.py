"""The role of principals: made once for a server, by whoever comes first, and left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator

import pytest

from postgres_memory._sql.names import quote
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import MigrationError
from postgres_memory.migrations import migrate
from tests.conftest import Server

from .alembic_runs import downgrade
from .conftest import MakeDatabase
from .test_privileges import dsn_as, execute, fetchval

THERE = "SELECT count(*) FROM pg_roles WHERE rolname = $1"

_numbers = itertools.count(1)


@pytest.fixture
async def names(server: Server) -> AsyncIterator[tuple[str, str]]:
    """The names of two roles, which may be made by the test and are dropped behind it: a login, and a group."""
    number = f"{os.getpid()} {next(_numbers)}"
    login, group = f"pm login {number}", f'pm "group": {number}'
    yield login, group
    await server.run(f"DROP ROLE IF EXISTS {quote(login)}")
    await server.run(f"DROP ROLE IF EXISTS {quote(group)}")


async def test_a_login_that_may_create_roles(names: tuple[str, str], make_database: MakeDatabase) -> None:
    """From PostgreSQL 16 it must give itself the right to act as the role it made."""
    login, group = names
    database = await make_database()
    await execute(
        database,
        f"CREATE ROLE {quote(login)} LOGIN CREATEROLE PASSWORD 'a'",
        f"GRANT CREATE ON DATABASE {quote(database.name)} TO {quote(login)}",
        "CREATE EXTENSION vector",
    )
    dsn = dsn_as(database, login)
    assert await migrate(Dsn(dsn), principal_role=group) == REVISION
    assert await fetchval(database, "SELECT pg_has_role($1::name, $2::name, 'SET')", login, group)
    assert not await fetchval(database, "SELECT pg_has_role($1::name, $2::name, 'USAGE')", login, group)
    assert not await fetchval(database, "SELECT rolcanlogin FROM pg_roles WHERE rolname = $1", group)
    assert await fetchval(
        database, "SELECT has_table_privilege($1::name, 'memory.memories', 'DELETE')", group
    )
    assert await migrate(Dsn(dsn), principal_role=group) == REVISION
    await downgrade(database.dsn, "base", principal_role=group)
    assert await fetchval(database, THERE, group) == 1
    await execute(database, f"DROP OWNED BY {quote(login)}")


async def test_a_login_that_may_not(names: tuple[str, str], make_database: MakeDatabase) -> None:
    login, group = names
    database = await make_database()
    await execute(
        database,
        f"CREATE ROLE {quote(login)} LOGIN PASSWORD 'a'",
        "CREATE EXTENSION vector",
        f"CREATE SCHEMA memory AUTHORIZATION {quote(login)}",
    )
    dsn = dsn_as(database, login)
    with pytest.raises(MigrationError) as raised:
        await migrate(Dsn(dsn), principal_role=group)
    advice = str(raised.value).partition("an administrator runs in this database: ")[2]
    assert advice == (
        f'CREATE ROLE {quote(group)}; GRANT {quote(group)} TO "{login}" WITH INHERIT FALSE, SET TRUE;'
    )
    await execute(database, advice)
    assert await migrate(Dsn(dsn), principal_role=group) == REVISION
    await execute(database, f"DROP OWNED BY {quote(login)}")


async def test_many_databases_of_a_server_migrate_at_once(
    names: tuple[str, str], make_database: MakeDatabase
) -> None:
    """Each under the lock of its own; one of them makes the role."""
    _, group = names
    databases = [await make_database() for _ in range(5)]
    outcomes = await asyncio.gather(
        *(migrate(Dsn(database.dsn), principal_role=group, revision="0002") for database in databases)
    )
    assert outcomes == ["0002"] * 5
    assert await fetchval(databases[0], THERE, group) == 1


@pytest.mark.parametrize("role", ["", "x" * 64, "pg_monitor", "a\0b"])
async def test_names_that_no_role_has(role: str) -> None:
    with pytest.raises(ValueError, match=r"^principal_role: "):
        await migrate(Dsn("postgresql://nowhere.invalid/a"), principal_role=role)
