"""What the commands say of their options, and of arguments that are refused before a database is asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from postgres_memory.cli.main import app, main

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = [command.name for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_cuts_no_name_of_a_variable_in_a_usual_terminal(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
    assert "POSTGRES_MEMORY_DSN" in shown
    assert re.findall(r"\w+…", shown) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count", "--dsn", "mysql://localhost/app"], "dsn: must be a URL that begins with postgresql://"),
        (["import", "--from", "mcp-json", "-"], "FILE: is standard input, and mcp-json is read from a file"),
        (
            ["related", "a", "--direction", "up"],
            "invalid value for '--direction': 'up' is not one of 'out', 'in', 'both'; see postgres-memory related",
        ),
        (
            ["relate", "a", "b", "likes"],
            "invalid value for 'type': 'likes' is not one of 'supports', 'contradicts', 'extends', 'precedes', "
            "'follows', 'related'; see",
        ),
        (["relate", "a", "b"], "missing argument 'type'"),
        (["stats", "--days", "0"], "invalid value for '--days': "),
        (["find", "--limit", "some"], "invalid value for '--limit': "),
        (["count", "--bogus"], "no such option: --bogus"),
        (["bogus"], "no such command 'bogus'"),
        (["stor"], "no such command 'stor'"),
        (["count", "twice"], "got unexpected extra argument"),
    ],
)
def test_what_is_refused_is_what_was_given(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", "postgresql://127.0.0.1:1/nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    complained = capsys.readouterr().err
    assert "?;" not in complained
    assert complained.startswith(f"postgres-memory: {message}")
    assert complained.count("\n") == 1


def test_no_arguments_are_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert "Usage: postgres-memory [OPTIONS] COMMAND" in shown.out + shown.err
