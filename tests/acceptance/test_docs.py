"""The examples of the documentation run: every Python block of a page, top to bottom, in one namespace."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from postgres_memory import PostgresMemory

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = sorted(page for page in DOCS.glob("reference/*.md") if "```python" in page.read_text())


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def compiled(page: Path, source: str) -> CodeType:
    code: CodeType = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def test_there_are_pages_with_examples() -> None:
    assert {"records.md", "relations.md", "lifecycle.md", "listing.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_the_examples_of_a_page_run(
    page: Path, memory: PostgresMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"memory": memory, "__name__": "page"}
    for source in blocks(page):
        outcome = eval(compiled(page, source), names)
        if inspect.isawaitable(outcome):
            await outcome
