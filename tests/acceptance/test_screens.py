"""The pictures of the command line: each is shown on a page, and drawn from a real run."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts import draw_screens

DOCS = Path(__file__).parent.parent.parent / "docs"
MOST_BYTES = 120_000


def texts(picture: Path) -> str:
    """Return what a picture shows, without the blanks."""
    return "".join("".join(ElementTree.parse(picture).getroot().itertext()).replace("\xa0", "").split())


def test_the_pictures_are_those_of_the_script_and_each_is_shown_with_words() -> None:
    assert {file.name for file in (DOCS / "screens").iterdir()} == {
        f"{name}.svg" for name in draw_screens.SCREENS
    }
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    for name in draw_screens.SCREENS:
        assert re.search(rf"!\[postgres-memory [^]]{{20,}}\]\([./]*screens/{name}\.svg\)", pages), name


@pytest.mark.parametrize("name", draw_screens.SCREENS)
def test_a_picture_is_small_and_fetches_nothing(name: str) -> None:
    drawn = (DOCS / "screens" / f"{name}.svg").read_text()
    assert len(drawn.encode()) < MOST_BYTES
    assert "url(http" not in drawn
    assert set(re.findall(r"https?://[^\"' ]+", drawn)) == {"http://www.w3.org/2000/svg"}
    assert "".join(f"$ {draw_screens.SCREENS[name]}".split()) in texts(
        DOCS / "screens" / f"{name}.svg"
    ).replace("\xa0", "")


def test_the_script_draws_them() -> None:
    folder = Path(tempfile.mkdtemp(prefix="pm-drawn-"))
    try:
        draw_screens.main(folder)
        assert {file.name for file in folder.iterdir()} == {
            file.name for file in (DOCS / "screens").iterdir()
        }
        for file, shown in {
            "demo.svg": "Imported60memories",
            "recall.svg": "Thismorning.Hereplacedthe",
            "graph.svg": "MiramovedtoPorto.",
            "stats.svg": "2,013memoriesofnamespace'household'",
            "doctor.svg": "theindexmemories_updated_at_idxismissing",
            "help.svg": "switch-space",
        }.items():
            assert shown in texts(folder / file), file
    finally:
        shutil.rmtree(folder)
