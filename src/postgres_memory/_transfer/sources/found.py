"""What a reader finds, one thing at a time: a memory, a relation, or why there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..._validation import MAX_KEY_BYTES


@dataclass(frozen=True, slots=True)
class Item:
    """A memory: ``values`` are those of an item of `add_many`. ``place`` says where in the source it is."""

    place: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two named things of a knowledge graph. It comes after all items."""

    place: str
    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is no memory and is left out on purpose."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bad:
    """Something that should be a memory and cannot be one."""

    place: str
    reason: str


Found = Item | Edge | Skipped | Bad


class NotAMemoryError(Exception):
    """A reader's word for what it cannot read, with the reason. Never leaves this package."""


def derived_id(prefix: str, *parts: str) -> str:
    """Return the id of a memory by the key it has in its source, the same every time, and another for another key."""
    spelt = prefix + "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)
    if len(spelt.encode()) <= MAX_KEY_BYTES:
        return spelt
    return f"{prefix}sha256:{hashlib.sha256(spelt.encode()).hexdigest()}"


def text_at(values: Mapping[str, Any], path: str) -> str | None:
    """Return the text at a dotted path, ``a.b.0``; None where there is none."""
    at: Any = values
    for step in path.split("."):
        if isinstance(at, dict):
            at = at.get(step)
        elif isinstance(at, list) and step.isascii() and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        else:
            return None
    return at if isinstance(at, str) else None


def time_of(value: object, name: str) -> datetime | None:
    """Return a time that a source writes in ISO 8601, or as seconds since 1970; without a zone it is UTC."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise NotAMemoryError(f"{name} is not a time")


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
