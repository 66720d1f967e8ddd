"""The commands export and import on whole namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from postgres_memory import PostgresMemory
from tests.conftest import Database


def run(database: Database, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = "from postgres_memory.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env=os.environ | {"POSTGRES_MEMORY_DSN": database.dsn},
    )


async def test_a_namespace_goes_out_and_in_again(
    memory: PostgresMemory, database: Database, tmp_path: Path
) -> None:
    await memory.add("first", id="a")
    await memory.supersede("a", "second", id="b")
    file = str(tmp_path / "out.jsonl")
    done = run(database, "export", file)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"2 memories" in done.stderr

    done = run(database, "import", file, "--namespace", "copy")
    assert (done.returncode, done.stdout) == (0, b"2 stored, 0 ignored, 0 relations, 0 messages\n")
    again = run(database, "import", file, "--namespace", "copy")
    assert again.returncode != 0
    assert b"already" in again.stderr
    ignored = run(database, "import", file, "--namespace", "copy", "--on-conflict", "ignore")
    assert ignored.stdout.startswith(b"0 stored, 2 ignored")


async def test_a_pipe_carries_a_namespace(memory: PostgresMemory, database: Database) -> None:
    await memory.store("piped")
    out = run(database, "export", "-")
    assert out.returncode == 0
    done = run(database, "import", "-", "--namespace", "copy", stdin=out.stdout)
    assert done.stdout.startswith(b"1 stored")
    cut = run(database, "import", "-", "--namespace", "other", stdin=out.stdout[:-20])
    assert (cut.returncode, cut.stdout) == (2, b"")
    assert b"Traceback" not in cut.stderr
    async with PostgresMemory(database.dsn, namespace="other") as other:
        assert await other.count(include_inactive=True) == 0


async def test_a_file_that_cannot_be_written(
    memory: PostgresMemory, database: Database, tmp_path: Path
) -> None:
    done = run(database, "export", str(tmp_path / "no" / "such" / "folder.jsonl"))
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"FILE" in done.stderr
