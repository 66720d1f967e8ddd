"""The page on the command line keeps what it promises: its commands run in a shell and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgres_memory.cli.main import app

if TYPE_CHECKING:
    from tests.conftest import Database

TOP = Path(__file__).parent.parent.parent
PAGE = (TOP / "docs" / "reference" / "command-line.md").read_text()


def examples() -> list[tuple[str, str]]:
    """Return every command of the page with what it is said to print, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)
    assert len(found) > 20
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the command, as an installed package has it."""
    command = tmp_path / "postgres-memory"
    command.write_text(f"#!{sys.executable}\nfrom postgres_memory.cli.main import main\n\nmain()\n")
    command.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(shutil.which("jq") is None, reason="the page shows jq")
def test_the_commands_print_what_the_page_shows(database: Database, folder: Path) -> None:
    environment = {
        **os.environ,
        "POSTGRES_MEMORY_DSN": database.dsn,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "COLUMNS": "120",
        "PYTHONWARNINGS": "error",
    }
    for command, printed in examples():
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0), command


def test_every_command_is_in_the_page_and_the_other_way_round() -> None:
    named = {command.name for command in app.registered_commands}
    table = PAGE.partition("| command | does |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == named


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(folder: Path, shell: str) -> None:
    asked = {
        "_POSTGRES_MEMORY_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "postgres-memory rel",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "postgres-memory rel",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [str(folder / "postgres-memory")],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("relate", "related"):
        assert re.search(rf"\b{name}\b", done.stdout)
    assert "erase" not in done.stdout
