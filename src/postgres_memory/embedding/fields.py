"""Which texts of a memory are embedded: its content, and the strings of its metadata that paths name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._validation import MAX_KEY_BYTES, check_text, kind_of
from ..errors import InvalidTypeError, InvalidValueError

_ARGUMENT = "embedded_fields"
_CONTENT, _METADATA, _EACH = "content", "metadata.", "[*]"
#: By so much a position may be longer than the ``*`` in its place: metadata hold fewer than a million strings.
_POSITION = 5
_KEYS = re.compile(r"[^.\[\]]+(\.[^.\[\]]+)*")


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A path into metadata: through the keys ``before``; if ``each``, on from each element of an array ``after``."""

    before: tuple[str, ...]
    each: bool = False
    after: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """Return how the names of its fields begin; all of the name, if it leads to one string alone."""
        return _METADATA + ".".join(self.before)

    @property
    def tail(self) -> str:
        """Return how they end, behind the position."""
        return "".join(f".{key}" for key in self.after)

    def strings(self, metadata: object) -> dict[str, str]:
        """Return the strings that are there, by the names of their fields. An empty one says nothing."""
        found = _at(metadata, self.before)
        if not self.each:
            named = {self.head: found}
        elif isinstance(found, list):
            each = enumerate(found)
            named = {f"{self.head}[{place}]{self.tail}": _at(one, self.after) for place, one in each}
        else:
            named = {}
        return {name: str.__str__(text) for name, text in named.items() if isinstance(text, str) and text}


@dataclass(frozen=True, slots=True)
class EmbeddedFields:
    """What is embedded of each memory: its ``content``, and what the ``paths`` lead to in its metadata."""

    content: bool = True
    paths: tuple[FieldPath, ...] = ()

    @property
    def are_usual(self) -> bool:
        """Whether that is the content and nothing else."""
        return self.content and not self.paths

    def strings(self, metadata: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the strings of the metadata that are embedded, by the names of their fields."""
        named: dict[str, str] = {}
        for path in self.paths:
            named |= path.strings(metadata)
        return named


#: What is embedded unless the caller says otherwise.
USUAL = EmbeddedFields()


def name_of_field(field: str) -> str:
    """Return the name of a field as the database keeps it as callers know it."""
    return field or _CONTENT


def check_fields(value: object) -> EmbeddedFields:
    """Return the fields that the caller names. Raises InvalidTypeError or InvalidValueError for what is no path."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidTypeError(_ARGUMENT, f"must be a tuple of str, not one {kind_of(value)}")
    names = [check_text(name, f"{_ARGUMENT}[{place}]") for place, name in enumerate(value)]
    if not names:
        raise InvalidValueError(
            _ARGUMENT, "must name at least one field; without an embedder none is embedded"
        )
    if len(set(names)) < len(names):
        raise InvalidValueError(_ARGUMENT, "must not name a field twice")
    paths = tuple(
        _check_path(name, f"{_ARGUMENT}[{place}]") for place, name in enumerate(names) if name != _CONTENT
    )
    return EmbeddedFields(_CONTENT in names, paths)


def _check_path(name: str, argument: str) -> FieldPath:
    if not name.startswith(_METADATA):
        raise InvalidValueError(argument, "must be 'content' or a path that begins with 'metadata.'")
    before, each, after = name.removeprefix(_METADATA).partition(_EACH)
    if not _KEYS.fullmatch(before) or (after and not (after[0] == "." and _KEYS.fullmatch(after[1:]))):
        raise InvalidValueError(
            argument,
            "must be keys joined by dots, as in 'metadata.summary', with at most one '[*]' behind a key, as in "
            "'metadata.facts[*]'; a key with a dot or a bracket cannot be named",
        )
    if len(name.encode()) + (_POSITION if each else 0) > MAX_KEY_BYTES:
        raise InvalidValueError(argument, f"must be at most {MAX_KEY_BYTES - _POSITION} bytes of UTF-8")
    return FieldPath(tuple(before.split(".")), bool(each), tuple(after[1:].split(".")) if after else ())


def _at(value: object, keys: Iterable[str]) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
