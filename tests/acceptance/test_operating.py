"""The quickstart and the how-tos for backups and upgrades, followed literally: commands print what they show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from postgres_memory import PostgresMemory
from postgres_memory._embedded import binaries
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate
from tests.conftest import TEST_DSN, Database
from tests.integration.embedded_folders import empty_folder

HOWTO = Path(__file__).parent.parent.parent / "docs" / "howto"


def steps(name: str) -> list[tuple[str, str]]:
    """Return the commands of a page, with what each is said to print."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", (HOWTO / name).read_text(), re.MULTILINE | re.DOTALL)
    shown = "".join(dedent(block) for block in blocks)
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)


def follow(name: str, folder: Path, **variables: str) -> None:
    """Run the commands of a page in ``folder``, where the programs of the package and of the server are at hand."""
    command = folder / "postgres-memory"
    command.write_text(f"#!{sys.executable}\nfrom postgres_memory.cli.main import main\n\nmain()\n")
    command.chmod(0o755)
    programs = [str(folder), *([] if os.environ.get(TEST_DSN) else [str(binaries())]), os.environ["PATH"]]
    environment = {**os.environ, **variables, "PATH": os.pathsep.join(programs), "PYTHONWARNINGS": "error"}
    assert steps(name)
    for line, printed in steps(name):
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.stdout + done.stderr, done.returncode) == (printed, 0), line


@pytest.mark.skipif(
    bool(os.environ.get(TEST_DSN)) and shutil.which("pg_dump") is None, reason="pg_dump is not on the PATH"
)
async def test_what_was_backed_up_is_restored(
    database: Database, empty_database: Database, tmp_path: Path
) -> None:
    async with PostgresMemory(database.dsn) as memory:
        tea = await memory.add("The user drinks tea.", tags=["drinks"])
        await memory.add("The user drinks coffee.", derived_from=[tea.id])
        follow(
            "back-up-and-restore.md",
            tmp_path,
            POSTGRES_MEMORY_DSN=database.direct_dsn,
            RESTORED_DSN=empty_database.direct_dsn,
        )
        kept = (await memory.find()).items
    async with PostgresMemory(empty_database.dsn) as memory:
        assert (await memory.find()).items == kept
    async with PostgresMemory(database.dsn, namespace="restored") as memory:
        assert [record.id for record in (await memory.find()).items] == [record.id for record in kept]


async def test_an_upgrade_is_done_as_the_page_says(empty_database: Database, tmp_path: Path) -> None:
    await migrate(Dsn(empty_database.direct_dsn), revision="0018")
    follow("upgrade-without-downtime.md", tmp_path, POSTGRES_MEMORY_DSN=empty_database.direct_dsn)
    assert "-- Running upgrade 0018 -> 0019" in (tmp_path / "upgrade.sql").read_text()


def test_the_quickstart_is_followed_by_a_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No database is named, so that each command starts the embedded one, and stops it."""
    page = (HOWTO.parent / "quickstart.md").read_text()
    program, _ = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (lines,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "remember.py").write_text(program)
    (tmp_path / "memories.jsonl").write_text(lines)
    for variable in ("POSTGRES_MEMORY_DSN", "DATABASE_URL", "POSTGRES_MEMORY_NAMESPACE"):
        monkeypatch.delenv(variable, raising=False)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with empty_folder() as server:
        follow("../quickstart.md", tmp_path, POSTGRES_MEMORY_EMBEDDED_DIR=str(server), COLUMNS="120")
