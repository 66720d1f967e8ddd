"""The command line called as people call it, and the database read behind its back."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from postgres_memory.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The same in a process of its own.
COMMAND = [sys.executable, "-c", "from postgres_memory.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    out: str
    err: str


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call the entry point; no database is named but by the arguments."""
    for variable in ("POSTGRES_MEMORY_DSN", "DATABASE_URL", "POSTGRES_MEMORY_NAMESPACE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, captured.out, captured.err)

    return call


def stored(dsn: str, namespace: str = "default") -> list[tuple[str, Any]]:
    """Return contents and metadata of a namespace in the order of storing, read without the package."""

    async def fetch() -> list[tuple[str, Any]]:
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch(
                "SELECT content, metadata FROM memory.memories WHERE namespace = $1 ORDER BY seq", namespace
            )
        finally:
            await connection.close()
        return [(row["content"], json.loads(row["metadata"])) for row in rows]

    return asyncio.run(fetch())


def execute(dsn: str, statement: str) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(work())


def line(content: object, **more: object) -> bytes:
    return json.dumps({"content": content, **more}).encode() + b"\n"


def started(*arguments: str, dsn: str) -> subprocess.Popen[bytes]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, *arguments, "--dsn", dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    """Press Ctrl-C and return the exit status, stdout, and the last line on stderr without the name of the command."""
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=30)
    assert process.stdout is not None
    assert process.stderr is not None
    complained = process.stderr.read().decode()
    assert "Traceback" not in complained
    return status, process.stdout.read(), complained.splitlines()[-1].removeprefix("postgres-memory: ")


def until_hangup(terminal: int) -> Iterator[bytes]:
    """Read what is written to a terminal until its last writer is gone, which is an error on Linux."""
    try:
        while part := os.read(terminal, 4096):
            yield part
    except OSError:
        return


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
