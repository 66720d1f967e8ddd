"""The command line called as people call it, and the database read behind its back."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from postgres_memory.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

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
