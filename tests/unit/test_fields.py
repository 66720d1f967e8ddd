"""Which strings of a memory paths lead to, and which paths are refused."""

from __future__ import annotations

from typing import Any

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.embedding.fields import USUAL, EmbeddedFields, FieldPath, check_fields, name_of_field
from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError

METADATA: dict[str, Any] = {
    "summary": "of it",
    "empty": "",
    "number": 5,
    "facts": ["first", 2, None, "", ["nested"], "last"],
    "notes": [{"text": "a"}, {"text": 1}, "b", {"other": "c"}, {"text": {"deep": "d"}}],
    "deep": {"er": {"still": "found"}, "list": ["x"]},
    "0": "zero",
    "Größe": "groß",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.summary", {"metadata.summary": "of it"}),
        ("metadata.empty", {}),
        ("metadata.number", {}),
        ("metadata.none", {}),
        ("metadata.facts", {}),
        ("metadata.facts[*]", {"metadata.facts[0]": "first", "metadata.facts[5]": "last"}),
        ("metadata.summary[*]", {}),
        ("metadata.facts.0", {}),
        ("metadata.notes[*].text", {"metadata.notes[0].text": "a"}),
        ("metadata.notes[*].text.deep", {"metadata.notes[4].text.deep": "d"}),
        ("metadata.deep.er.still", {"metadata.deep.er.still": "found"}),
        ("metadata.deep.list[*]", {"metadata.deep.list[0]": "x"}),
        ("metadata.0", {"metadata.0": "zero"}),
        ("metadata.Größe", {"metadata.Größe": "groß"}),
    ],
)
def test_strings(path: str, expected: dict[str, str]) -> None:
    assert check_fields([path]).strings(METADATA) == expected
    assert check_fields([path]).strings(None) == {}


def test_what_is_named() -> None:
    assert check_fields(("content",)) == USUAL
    assert USUAL.are_usual
    several = check_fields(["metadata.a[*].b.c", "content"])
    assert several == EmbeddedFields(True, (FieldPath(("a",), True, ("b", "c")),))
    assert not several.are_usual
    assert not check_fields(["metadata.a"]).content
    assert [name_of_field(field) for field in ("", "metadata.a[2]")] == ["content", "metadata.a[2]"]


@pytest.mark.parametrize(
    ("given", "kind", "problem"),
    [
        ("content", InvalidTypeError, "must be a tuple of str, not one str"),
        (None, InvalidTypeError, "must be a tuple of str, not one None"),
        ((), InvalidValueError, "at least one"),
        (("content", "content"), InvalidValueError, "twice"),
        (("content", 5), InvalidTypeError, r"embedded_fields\[1\]"),
        (("summary",), InvalidValueError, "begins with 'metadata.'"),
        (("metadata",), InvalidValueError, "begins with 'metadata.'"),
        (("$",), InvalidValueError, "begins with 'metadata.'"),
        (("metadata.",), InvalidValueError, "keys joined by dots"),
        (("metadata.a..b",), InvalidValueError, "keys joined by dots"),
        (("metadata.a.",), InvalidValueError, "keys joined by dots"),
        (("metadata.[*]",), InvalidValueError, "keys joined by dots"),
        (("metadata.a[0]",), InvalidValueError, "keys joined by dots"),
        (("metadata.a[*]b",), InvalidValueError, "keys joined by dots"),
        (("metadata.a[*].",), InvalidValueError, "keys joined by dots"),
        (("metadata.a[*][*]",), InvalidValueError, "keys joined by dots"),
        (("metadata.a[*].b[*]",), InvalidValueError, r"at most one '\[\*\]'"),
        (("metadata.a\0",), InvalidValueError, "NUL"),
        (("metadata." + "ä" * 124,), InvalidValueError, "bytes"),
        (("metadata." + "a" * 240 + "[*]",), InvalidValueError, "bytes"),
    ],
)
def test_what_is_refused_at_construction(given: Any, kind: type[InvalidInputError], problem: str) -> None:
    with pytest.raises(kind, match=problem) as raised:
        PostgresMemory("postgresql://h/d", embedded_fields=given)
    assert raised.value.argument.startswith("embedded_fields")


def test_the_longest_path() -> None:
    assert check_fields(("metadata." + "a" * 238 + "[*]",)).paths[0].each
    assert check_fields(("metadata." + "ä" * 123,)).paths
