"""A dump of a database with memories, restored into an empty one: pg_dump restores under an empty search_path."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._embedded import binaries
from postgres_memory._sql.names import quote
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate
from tests.conftest import TEST_DSN, Database

from .catalog import read_catalog


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of pg_dump, psql and pg_restore: the embedded server's, or that of the PATH for another server."""
    if not os.environ.get(TEST_DSN):
        return binaries()
    found = shutil.which("pg_dump")
    if found is None:
        pytest.skip(
            "pg_dump is not on the PATH, and the server of POSTGRES_MEMORY_TEST_DSN is not the embedded one"
        )
    return Path(found).parent


async def run(program: Path, *arguments: str) -> None:
    finished = await asyncio.to_thread(
        subprocess.run, [str(program), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr


async def fill(dsn: str, schema: str) -> None:
    async with PostgresMemory(dsn, schema=schema) as memory:
        for content in (
            "the user likes tea",
            "the user likes tea",
            "",
            "ΟΔΥΣΣΕΥΣ İstanbul 🧠",
            "x" * 200_000,
        ):
            await memory.store(content, {"né\n": [1e23, None, "\\."], "of": len(content)})


@pytest.mark.parametrize("as_script", [True, False], ids=["psql", "pg_restore"])
@pytest.mark.parametrize(
    ("schema", "extension_schema"), [("memory", "public"), ("memory", "extensions"), ('My "own".%', "Ext 1")]
)
async def test_a_restored_dump_serves(
    two_databases: tuple[Database, Database],
    programs: Path,
    tmp_path: Path,
    schema: str,
    extension_schema: str,
    *,
    as_script: bool,
) -> None:
    source, target = two_databases
    await migrate(Dsn(source.dsn), schema=schema, extension_schema=extension_schema)
    await fill(source.dsn, schema)
    dump = str(tmp_path / "dump")
    if as_script:
        await run(programs / "pg_dump", "--file", dump, source.dsn)
        quiet = ("--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1")
        await run(programs / "psql", *quiet, "--file", dump, target.dsn)
    else:
        await run(programs / "pg_dump", "--format", "custom", "--file", dump, source.dsn)
        await run(programs / "pg_restore", "--exit-on-error", "--dbname", target.dsn, dump)
    assert await read_catalog(target.dsn, schema) == await read_catalog(source.dsn, schema)
    await check_restored(source.dsn, target.dsn, schema)


async def check_restored(source: str, target: str, schema: str) -> None:
    async with PostgresMemory(source, schema=schema) as old, PostgresMemory(target, schema=schema) as new:
        for query in ("the user likes tea", "", "οδυσσευς", "xxxx"):
            expected = await old.search(query, limit=99)
            assert len(expected) == 5
            assert await new.search(query, limit=99) == expected
        verification = await new.verify()
        assert verification.ok
        assert verification.checked == 5
        # The counters go on behind what was restored.
        await new.store("stored later")
        await new.migrate()
        assert [entry.content for entry in await new.search("", limit=99)][-1] == "stored later"
    connection = await asyncpg.connect(target)
    try:
        norms = f"SELECT squared_norm FROM {quote(schema)}.memory_hash_embeddings ORDER BY seq"
        restored = await connection.fetch(norms)
    finally:
        await connection.close()
    assert [row[0] for row in restored][2] == 1.0
    assert [row[0] for row in restored][4] == 199_998.0**2
