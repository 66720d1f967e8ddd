"""The how-to for OpenTelemetry, followed to the letter in a process of its own: providers can be set once in each."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Database

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "observe-with-opentelemetry.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)

#: Runs a page whose blocks await.
RUN = """
import ast, asyncio, inspect, sys

async def run():
    outcome = eval(compile(sys.stdin.read(), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})
    assert inspect.isawaitable(outcome)
    await outcome

asyncio.run(run())
"""


async def test_the_page_is_true(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(BLOCKS) == 4
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", RUN], input="\n".join(BLOCKS), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
