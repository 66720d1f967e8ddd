"""README and quickstart keep what they promise: their examples run and print what they show."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.cli.main import main

if TYPE_CHECKING:
    from tests.conftest import Database

TOP = Path(__file__).parent.parent.parent
README = (TOP / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of ``language`` ("" for those that name none)."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [body for named, body in found if named == language]


def printed(text: str) -> list[str]:
    """Return what the examples are said to print."""
    return re.findall(r"^It prints:\n\n```\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def environment(dsn: str) -> dict[str, str]:
    return {**os.environ, "POSTGRES_MEMORY_DSN": dsn, "PYTHONWARNINGS": "error"}


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_example_is_short_runs_and_prints_what_it_shows(database: Database, tmp_path: Path) -> None:
    example, _ = blocks(README, "python")
    assert len(example.splitlines()) <= 15
    shown, _ = printed(README)
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=environment(database.dsn),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == shown


async def test_example_of_recall_prints_what_it_shows(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    _, example = blocks(README, "python")
    _, shown = printed(README)
    body = "".join(f"    {line}\n" for line in example.splitlines())
    names: dict[str, object] = {"PostgresMemory": PostgresMemory}
    exec(f"async def run():\n{body}", names)
    run = names["run"]
    assert asyncio.iscoroutinefunction(run)
    await run()
    assert capsys.readouterr().out == shown


def test_readme_names_the_two_commands_and_make_has_them() -> None:
    makefile = (TOP / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target} " in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_commands_of_the_readme_run(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    monkeypatch.chdir(tmp_path)
    (lines,) = (block for block in blocks(README, "") if block.startswith("postgres-memory"))
    (example,) = blocks((TOP / "docs" / "quickstart.md").read_text(), "json")
    Path("memories.jsonl").write_text(example)
    commands = [command_of(line) for line in lines.splitlines()]
    assert [command[0] for command in commands] == [
        "migrate",
        "store",
        "search",
        "recall",
        "find",
        "delete",
        "import",
        "export",
        "import",
        "verify",
    ]
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0, (command, capsys.readouterr().err)
    out = capsys.readouterr().out
    assert "Mira moved to Porto." in out
    assert "0 stored, 2 ignored" in out  # what was exported is there


def command_of(line: str) -> list[str]:
    import shlex

    return shlex.split(line, comments=True)[1:]


async def test_transaction_of_the_quickstart_joins_the_callers(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, example = blocks((TOP / "docs" / "quickstart.md").read_text(), "python")
    body = "".join(f"    {line}\n" for line in example.splitlines())
    names: dict[str, object] = {}
    exec(f"async def run(pool, memory):\n{body}", names)
    async with asyncpg.create_pool(database.dsn, min_size=1) as pool, PostgresMemory(pool) as memory:
        await pool.execute("CREATE TABLE tickets (id int, open boolean)")
        run = names["run"]
        assert asyncio.iscoroutinefunction(run)
        await run(pool, memory)
        assert [entry.content for entry in await memory.search("Ticket 7")] == ["Ticket 7 was closed."]


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in (TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "docs" / "quickstart.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), (document.name, target)
