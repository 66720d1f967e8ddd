"""The how-to pages for moving from another system, followed literally: each command prints what the page says."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.command import caller, execute
from tests.integration.peer_sources import LANGGRAPH, MCP_JSON, MEM0, PGMEMORY
from tests.integration.test_import_from_files import conversation, message

if TYPE_CHECKING:
    from tests.conftest import Database

HOWTO = Path(__file__).parent.parent.parent / "docs" / "howto"
PAGES = sorted(HOWTO.glob("move-from-*.md"))
TALK = conversation(
    "c1",
    message("m0", "system", ""),
    message("m1", "user", "I moved to Oslo."),
    message("m2", "assistant", "The user lives in Oslo.", recipient="bio"),
    message("m3", "assistant", "Welcome!"),
)


def transcript(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page, and what each is said to print."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def test_every_source_has_a_page() -> None:
    assert [page.stem.removeprefix("move-from-") for page in PAGES] == [
        "chatgpt",
        "langgraph",
        "mcp-memory",
        "mem0",
        "pgmemory",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_print_what_the_page_says(
    page: Path,
    database: Database,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    execute(empty_database.direct_dsn, "CREATE EXTENSION vector;" + MEM0 + LANGGRAPH + PGMEMORY)
    (tmp_path / "memory.jsonl").write_text(MCP_JSON)
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([TALK]))
    run = caller(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    if "POSTGRES_MEMORY_SOURCE_DSN" in page.read_text():
        monkeypatch.setenv("POSTGRES_MEMORY_SOURCE_DSN", empty_database.dsn)
    commands = transcript(page)
    assert commands
    for command, output in commands:
        program, *arguments = shlex.split(command)
        assert program == "postgres-memory"
        outcome = run(*arguments)
        assert (outcome.status, outcome.err) == (0, ""), command
        if output:
            assert outcome.out == output, command
        else:
            assert "The user lives in Oslo." in outcome.out
