"""`postgres-memory import`: good lines in order, bad ones by number, and the truth about what is stored."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

from postgres_memory import PostgresMemory

from .command import COMMAND, Outcome, caller, execute, interrupted, line, stored, until_hangup, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Database


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return caller(monkeypatch, capsys)


def test_good_lines_are_stored_in_order(
    run: Callable[..., Outcome], database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "many.jsonl"
    # More than one batch, and not a whole number of them.
    file.write_bytes(b"".join(line(f"memory {n}", metadata={"n": n}) for n in range(1203)))
    outcome = run("import", str(file), "--dsn", database.dsn)
    assert outcome == Outcome(0, "1203 stored, 0 bad\n", "")
    assert stored(database.direct_dsn) == [(f"memory {n}", {"n": n}) for n in range(1203)]


def test_bad_lines_are_reported_by_number_and_left_out(
    run: Callable[..., Outcome], database: Database
) -> None:
    lines = [
        line("first"),
        b"\n",
        b"not json\n",
        b"[1]\n",
        b'{"metadata": {}}\n',
        line("x", tags=["a"]),
        line(17),
        line("x", metadata=[1]),
        line("nul \0"),
        b'{"content": "\\ud800"}\n',
        b'{"content": "x", "content": "y"}\n',
        b'{"content": "x", "metadata": {"a": NaN}}\n',
        b'{"content": "x", "metadata": {"a": 1e999}}\n',
        b'{"content": "x", "metadata": {"a": ' + b"9" * 5000 + b"}}\n",
        b'{"content": "x", "metadata": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}\n",
        b'{"content": "x", "metadata": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}\n",
        b'{"content": "\xff"}\n',
        line("x" * 1_048_577),
        line("null is no metadata", metadata=None),
        b"  \r\n",
        b'{"content": "no newline at the end", "metadata": {"k": "v"}}\r',
    ]
    outcome = run("import", "-", "--dsn", database.dsn, stdin=b"\xef\xbb\xbf" + b"".join(lines))
    assert outcome.status == 1
    assert outcome.out == "3 stored, 16 bad\n"
    reported = [text.split(": ")[1] for text in outcome.err.splitlines()]
    assert reported == [f"line {number}" for number in range(3, 19)]
    assert "'tags'" in outcome.err
    assert "Traceback" not in outcome.err
    assert stored(database.direct_dsn) == [
        ("first", {}),
        ("null is no metadata", {}),
        ("no newline at the end", {"k": "v"}),
    ]


def test_a_line_longer_than_memory_should_hold_is_one_bad_line(
    run: Callable[..., Outcome], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postgres_memory._transfer.plain.MAX_PLAIN_BYTES", 64)
    stdin = line("before") + line("x" * 1000) + line("after") + line("y" * 64)[:-1]
    outcome = run("import", "-", "--dsn", database.dsn, stdin=stdin)
    assert outcome.out == "2 stored, 2 bad\n"
    assert [text.split(": ")[1] for text in outcome.err.splitlines()] == ["line 2", "line 4"]
    assert [content for content, _ in stored(database.direct_dsn)] == ["before", "after"]


def test_an_empty_file_is_no_error(run: Callable[..., Outcome], database: Database) -> None:
    assert run("import", "-", "--dsn", database.dsn) == Outcome(0, "0 stored, 0 bad\n", "")


def test_a_failing_database_leaves_whole_batches_and_says_where_it_stopped(
    run: Callable[..., Outcome], database: Database
) -> None:
    execute(database.direct_dsn, "ALTER TABLE memory.memories ADD CHECK (content <> 'memory 700')")
    stdin = b"".join(line(f"memory {n}") for n in range(1, 1200))
    outcome = run("import", "-", "--dsn", database.dsn, stdin=stdin)
    assert outcome.status == 1
    assert outcome.out == ""
    assert "stopped after line 500: 500 stored, 0 bad" in outcome.err
    assert [content for content, _ in stored(database.direct_dsn)] == [f"memory {n}" for n in range(1, 501)]


def test_ctrl_c_while_it_waits_says_what_is_stored(database: Database) -> None:
    with importing("-", database.dsn) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(line(f"memory {n}") for n in range(1100)))
        process.stdin.flush()
        wait_until(lambda: len(stored(database.direct_dsn)) >= 1000)
        assert interrupted(process) == (130, b"", "stopped after line 1000: 1000 stored, 0 bad")


def test_ctrl_c_while_it_stores_says_what_is_stored(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(b"".join(line(f"memory {n}") for n in range(20_000)))
    with importing(str(file), database.dsn) as process:
        wait_until(lambda: len(stored(database.direct_dsn)) >= 500)
        status, out, last = interrupted(process)
    count = len(stored(database.direct_dsn))
    assert (status, out, last) == (130, b"", f"stopped after line {count}: {count} stored, 0 bad")
    assert count < 20_000
    assert count % 500 == 0


def test_a_terminal_sees_a_progress_bar(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"".join(line(f"memory {n}") for n in range(600)))
    reader, writer = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "import", str(file), "--dsn", database.dsn],
        stdout=subprocess.PIPE,
        stderr=writer,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(writer)
        seen = b"".join(until_hangup(reader))
        os.close(reader)
        out = process.stdout
        assert out is not None
        assert out.read() == b"600 stored, 0 bad\n"
    assert b"importing" in seen
    assert b"100%" in seen


def importing(file: str, dsn: str) -> subprocess.Popen[bytes]:
    """Start an import in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, "import", file, "--dsn", dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_a_line_refused_by_the_database_risks_no_other_line(memory: PostgresMemory) -> None:
    """A batch of lines may be several to `add_many`: those of a batch that was stored are not given again."""
    long = {"pages": [0] * 400_000}  # 0.8 MB of JSON, five times that as objects
    lines = [json.dumps({"content": f"{n}", "metadata": long}).encode() for n in range(4)]
    lines.insert(2, b'{"content": 5}')
    result = await memory.import_(io.BytesIO(b"\n".join(lines)))
    assert (result.stored, result.failures, [failure.line for failure in result.failed]) == (4, 1, [3])
    assert [entry.content for entry in await memory.search("", 10)] == ["0", "1", "2", "3"]
