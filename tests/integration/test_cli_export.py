"""The commands export and import on whole namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from postgres_memory import PostgresMemory
from tests.conftest import Database
from tests.integration.command import COMMAND


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
    assert b"already, and on_conflict is 'error'" in again.stderr
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


async def test_an_export_may_come_through_a_pipe_in_pieces(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.store("piped")
    out = run(database, "export", "-").stdout
    process = start(database, "import", "-", "--namespace", "copy")
    assert process.stdin is not None
    for piece in (out[:5], out[5:]):
        process.stdin.write(piece)
        process.stdin.flush()
        await asyncio.sleep(1)
    assert process.communicate()[0].startswith(b"1 stored")


async def test_ctrl_c_ends_an_import_that_waits_for_its_pipe(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.store("piped")
    out = run(database, "export", "-").stdout
    process = start(database, "import", "-", "--namespace", "copy")
    assert process.stdin is not None
    process.stdin.write(out[:-20])
    process.stdin.flush()
    await asyncio.sleep(3)
    process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(process.wait, 10) == 130
    assert b"interrupted" in process.communicate()[1]
    async with PostgresMemory(database.dsn, namespace="copy") as copy:
        assert await copy.count(include_inactive=True) == 0


async def test_a_timeout_of_the_database_is_no_trouble_with_the_file(
    memory: PostgresMemory, database: Database
) -> None:
    await memory.add_many(f"memory number {number} " * 20 for number in range(3000))
    separator = "&" if "?" in database.dsn else "?"
    done = run(database, "export", "-", "--dsn", f"{database.dsn}{separator}statement_timeout=1")
    assert done.returncode == 1
    assert b"57014" in done.stderr


def start(database: Database, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"POSTGRES_MEMORY_DSN": database.dsn},
    )


async def test_a_file_that_cannot_be_written(
    memory: PostgresMemory, database: Database, tmp_path: Path
) -> None:
    done = run(database, "export", str(tmp_path / "no" / "such" / "folder.jsonl"))
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"FILE" in done.stderr
