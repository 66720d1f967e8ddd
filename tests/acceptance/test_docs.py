"""The examples of the documentation run: every Python block of a page, top to bottom, in one namespace."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from scripts.draw_ranking import picture_of

from postgres_memory import PostgresMemory
from tests.conftest import Database

DOCS = Path(__file__).parent.parent.parent / "docs"
#: Those of docs/howto that need no more than a database; the others have tests of their own.
HOWTO = ("embed-in-fastapi.md", "keep-tenants-apart.md", "replace-flux-vectormemory.md")
PAGES = sorted(
    page
    for folder in ("reference", "explanation")
    for page in DOCS.glob(f"{folder}/*.md")
    if "```python" in page.read_text()
) + [DOCS / "howto" / name for name in HOWTO]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def compiled(page: Path, source: str) -> CodeType:
    code: CodeType = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def test_there_are_pages_with_examples() -> None:
    assert {"records.md", "relations.md", "lifecycle.md", "listing.md", "recall.md", "ranking.md"} <= {
        page.name for page in PAGES
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_the_examples_of_a_page_run(
    page: Path,
    database: Database,
    memory: PostgresMemory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    names: dict[str, Any] = {"memory": memory, "__name__": "page"}
    for source in blocks(page):
        outcome = eval(compiled(page, source), names)
        if inspect.isawaitable(outcome):
            await outcome
    picture = page.with_suffix(".svg")
    if picture.exists():
        assert picture_of(names) == picture.read_text(encoding="utf-8"), "run scripts/draw_ranking.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_before_an_example_which_variables_it_needs(page: Path) -> None:
    text, told = page.read_text(), ""
    for part in re.split(r"^(```python\n.*?^```)", text, flags=re.MULTILINE | re.DOTALL):
        if not part.startswith("```python"):
            told += part
            continue
        for variable in re.findall(r"""environ\[["'](\w+)["']\]""", part):
            assert f"`{variable}`" in told, (page.name, variable)


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
