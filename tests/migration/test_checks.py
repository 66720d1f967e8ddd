"""What the code refuses, raw SQL cannot write either."""

from __future__ import annotations

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.errors import MigrationError
from tests.conftest import Database

from .alembic_runs import downgrade

INFINITE = ("infinity", "-infinity")
TIMES = (*INFINITE, "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00", "20000-01-01+00")
NAMES = ("{a,NULL}", "{NULL}", '{a,""}')
KEYS = ("", "k" * 256, "ü" * 128)

COLUMNS = {
    "memories created_at times": TIMES,
    "memories updated_at times": TIMES,
    "memories expires_at times": TIMES,
    "memories tags names": NAMES,
    "memories readers names": NAMES,
    "memories writers names": NAMES,
    "memories owner (names|keys)": KEYS,
    "memories thread_id keys": KEYS,
    "memories session_id keys": KEYS,
    "memory_hash_embeddings expires_at expires_at": INFINITE,
    "memory_access last_accessed last_accessed": TIMES,
    "session_messages created_at created_at": TIMES,
    "session_messages owner (names|owner)": KEYS,
    "session_messages readers names": NAMES,
    "session_messages writers names": NAMES,
    "idempotency_keys namespace keys": KEYS,
    "idempotency_keys owner keys": KEYS,
    "idempotency_keys memory_id keys": KEYS,
    "idempotency_keys expires_at expires_at": INFINITE,
}
ALLOWED = {
    INFINITE: ("0001-01-01 00:00:00.000001+00", "9999-12-31 23:59:59.999998+00"),
    TIMES: ("0001-01-01 00:00:00.000001+00", "9999-12-31 23:59:59.999998+00"),
    NAMES: ("{}", "{a,b}", "[3:4]={a,b}"),
    KEYS: ("k", "k" * 255, "ü" * 127),
}


async def one_of_each(database: Database) -> asyncpg.Connection[asyncpg.Record]:
    """Return a connection to a database that holds one row in each table."""
    async with PostgresMemory(database.dsn, access_tracking="inline") as memory:
        await memory.get((await memory.add("tea", idempotency_key="k")).id)
    connection = await asyncpg.connect(database.dsn)
    await connection.execute(
        "INSERT INTO memory.session_messages (namespace, session_id, message) VALUES ('n', 's', '{}')"
    )
    return connection


async def test_raw_sql_cannot_break_the_rules_either(database: Database) -> None:
    connection = await one_of_each(database)
    try:
        for place, refused in COLUMNS.items():
            table, column, check = place.split()
            for value in refused:
                with pytest.raises(asyncpg.CheckViolationError, match=f"{table}_{check}_check"):
                    await connection.execute(f"UPDATE memory.{table} SET {column} = '{value}'")
            for value in ALLOWED[refused]:
                outcome = await connection.execute(f"UPDATE memory.{table} SET {column} = '{value}'")
                assert outcome == "UPDATE 1", (place, value)
            if refused is NAMES:
                with pytest.raises(asyncpg.DataError):  # a list of lists
                    await connection.execute(f"UPDATE memory.{table} SET {column} = '{{{{a}},{{b}}}}'")
    finally:
        await connection.close()


async def test_an_old_row_that_breaks_a_rule_stops_the_revision_and_the_rule_is_named(
    database: Database,
) -> None:
    await downgrade(database.dsn, "0009")
    connection = await asyncpg.connect(database.dsn)
    memory = PostgresMemory(database.dsn)
    try:
        await connection.execute(
            "INSERT INTO memory.memories (namespace, id, content, tags) VALUES ('n', 'i', 'tea', '{NULL}')"
        )
        with pytest.raises(MigrationError, match="memories_names_check"):
            await memory.migrate()
        await connection.execute("UPDATE memory.memories SET tags = '{}'")
        assert await memory.migrate() == REVISION
    finally:
        await memory.close()
        await connection.close()
