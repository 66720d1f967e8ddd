"""Numbers in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postgres_memory._counted import counted

SOURCES = Path(__file__).parents[2] / "src" / "postgres_memory"

#: A number that is formatted right before the plural of what the package counts.
PLURAL = re.compile(
    r"\{(?![^{}]*counted\()[^{}]+\} (memories|relations|messages|embeddings|rows|spaces|indexes|keys|problems|warnings|"
    r"notices|connections|sessions|transactions|files|lines|entities|observations)\b"
)
#: Numbers that are never one.
ALLOWED = {
    "_doctor/sessions.py": 2,  # more than a million transactions, twice
    "_doctor/spaces.py": 1,  # what makes a space large
    "_doctor/sizes.py": 4,  # hundreds of thousands and more
    "_doctor/indexes.py": 1,  # of the schema
    "_doctor/upkeep.py": 3,  # more than a thousand rows, twice, and more than 10,000 memories
}


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1000, "1000 rows"), (-1, "-1 rows")]
)
def test_one_is_one(number: int, words: str) -> None:
    assert counted(number, "row") == words


def test_a_plural_of_its_own() -> None:
    assert [counted(number, "memory", "memories") for number in (0, 1)] == ["0 memories", "1 memory"]


@pytest.mark.parametrize("folder", ["cli", "_doctor"])
def test_no_number_stands_before_a_plural_as_it_is(folder: str) -> None:
    found = {
        str(file.relative_to(SOURCES)): len(PLURAL.findall(file.read_text()))
        for file in (SOURCES / folder).glob("*.py")
    }
    assert {file: count for file, count in found.items() if count > ALLOWED.get(file, 0)} == {}
