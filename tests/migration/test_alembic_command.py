"""Alembic's own command from a checkout, and the SQL it writes."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate
from tests.conftest import Database

from .alembic_runs import run_alembic
from .catalog import read_catalog
from .conftest import MakeDatabase
from .test_revisions import QUOTED

PASSWORD = "Geheim-77"


async def execute(database: Database, statement: str) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def succeed(*arguments: str, dsn: str) -> str:
    """Run alembic, which must succeed and say nothing but what it was asked for; return that."""
    finished = await run_alembic(*arguments, dsn=dsn)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


async def fail(*arguments: str, dsn: str) -> str:
    """Run alembic, which must fail; return all that it printed."""
    finished = await run_alembic(*arguments, dsn=dsn)
    assert finished.returncode != 0
    return finished.stdout + finished.stderr


async def test_up_and_down(empty_database: Database, database: Database) -> None:
    dsn = empty_database.dsn
    assert await succeed("upgrade", "head", dsn=dsn) == ""
    assert await read_catalog(dsn) == await read_catalog(database.dsn)
    assert await succeed("current", dsn=dsn) == f"{REVISION} (head)\n"
    # Alembic before 1.18 warns here that it does not compare the expressions of generated columns.
    checked = await run_alembic("check", dsn=dsn)
    assert (checked.returncode, checked.stdout) == (0, "No new upgrade operations detected.\n")
    assert await succeed("downgrade", "base", dsn=dsn) == ""
    assert not any((await read_catalog(dsn)).values())
    assert await succeed("upgrade", "+1", dsn=dsn) == ""
    assert await migrate(Dsn(dsn)) == REVISION


async def test_looking_changes_nothing(empty_database: Database) -> None:
    assert await succeed("current", dsn=empty_database.dsn) == ""
    connection = await asyncpg.connect(empty_database.dsn)
    try:
        assert await connection.fetchval("SELECT to_regnamespace('memory')::text") is None
        assert await connection.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 0
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("schema", "extension_schema"),
    [(None, None), ("memory", "extensions"), ('Ünï "q".%s :x', "Ext:'1'"), ("m", "m")],
)
async def test_the_written_sql_makes_the_same(
    make_database: MakeDatabase, schema: str | None, extension_schema: str | None
) -> None:
    """As one script, and statement by statement, as a tool without multi-statement support runs it."""
    migrated, scripted, stepped = [await make_database() for _ in range(3)]
    named = [] if schema is None else ["-x", f"schema={schema}", "-x", f"extension_schema={extension_schema}"]
    sql = await succeed(*named, "upgrade", "head", "--sql", dsn="")
    name, where = schema or "memory", extension_schema or "public"
    await migrate(Dsn(migrated.dsn), schema=name, extension_schema=where)
    expected = await read_catalog(migrated.dsn, name)

    await execute(scripted, sql)
    # What prepares the database changes nothing where it is prepared.
    await execute(scripted, sql.partition("BEGIN;")[0])
    assert await read_catalog(scripted.dsn, name) == expected

    connection = await asyncpg.connect(stepped.dsn)
    try:
        for statement in split(sql):
            await connection.execute(statement)
    finally:
        await connection.close()
    assert await read_catalog(stepped.dsn, name) == expected
    for database in (scripted, stepped):
        assert await migrate(Dsn(database.dsn), schema=name) == REVISION
        async with PostgresMemory(database.dsn, schema=name) as memory:
            await memory.store("tea")
            assert (await memory.verify()).ok


def split(script: str) -> list[str]:
    """Return the statements of a script. A semicolon in quotes, or in a comment, ends none."""
    unquoted = QUOTED.sub(lambda found: "_" * len(found.group()), script)
    ends = [-1, *(place for place, sign in enumerate(unquoted) if sign == ";")]
    return [script[end + 1 : next_end] for end, next_end in pairwise(ends)]


async def test_the_sql_of_a_part_of_the_way_and_back(empty_database: Database) -> None:
    await migrate(Dsn(empty_database.dsn), revision="0003")
    at_three = await read_catalog(empty_database.dsn)
    await execute(empty_database, await succeed("upgrade", f"0003:{REVISION}", "--sql", dsn=""))
    assert await migrate(Dsn(empty_database.dsn)) == REVISION
    await execute(empty_database, await succeed("downgrade", f"{REVISION}:0003", "--sql", dsn=""))
    assert await read_catalog(empty_database.dsn) == at_three
    await execute(empty_database, await succeed("downgrade", "0003:base", "--sql", dsn=""))
    assert not any((await read_catalog(empty_database.dsn)).values())


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        (f"postgresql://someone:{PASSWORD}@localhost:1/a", "the connection failed: "),
        (
            f"postgresql://localhost:1/a?sslmode={PASSWORD}",
            "the DSN postgresql://localhost:1/a cannot be read",
        ),
        (f"mysql://someone:{PASSWORD}@localhost/a", "POSTGRES_MEMORY_DSN: must be a URL"),
        ("", "no database: set POSTGRES_MEMORY_MIGRATION_DSN, POSTGRES_MEMORY_DSN or DATABASE_URL"),
    ],
)
async def test_what_a_dsn_that_leads_nowhere_gives(dsn: str, said: str) -> None:
    """One line that says what is wrong: no traceback, and no password."""
    output = await fail("upgrade", "head", dsn=dsn)
    assert f"FAILED: {said}" in output
    assert PASSWORD not in output
    assert "Traceback" not in output


async def test_a_wrong_password(make_database: MakeDatabase) -> None:
    """Or a role that does not exist, where the server trusts everybody it knows."""
    parts = urlsplit((await make_database()).dsn)
    netloc = f"no%20such%20role:{PASSWORD}@{parts.netloc.rpartition('@')[2]}"
    output = await fail("upgrade", "head", dsn=urlunsplit(parts._replace(netloc=netloc)))
    assert "FAILED: " in output
    assert "no such role" in output
    assert PASSWORD not in output
    assert "Traceback" not in output


async def test_names_that_cannot_be() -> None:
    output = await fail("-x", "schema=pg_x", "upgrade", "head", "--sql", dsn="")
    assert "FAILED: schema: must not begin with pg_" in output
