"""The file of the reference MCP memory server: JSON Lines of entities and relations.

An entity becomes the memory that our own MCP server keeps for it in its knowledge-graph mode: the id made of its name,
the entity in the metadata, name, type and observations as lines of the content; a relation becomes one of type RELATED
with what it says as the label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ...records import MemoryRelationType
from ..plain import MAX_PLAIN_BYTES
from ..strict_json import NotJsonError, parse_line
from .found import Bad, Edge, Found, Item, NotAMemoryError

#: What relations between entities are stored as.
RELATION = MemoryRelationType.RELATED

_NAMED, _HASHED = "entity:", "entity-sha256:"
_MAX_NAMED_BYTES = 240
_MAX_NAME = 1024


def read_graph(path: Path, started: datetime) -> Iterator[Found]:
    """Yield the entities of a file, in its order, then its relations; bad lines with the entities.

    The file has no times: entities get that of the import, a microsecond apart, so that they keep their order.
    """
    for number, line in _lines(path):
        found = _found(number, line)
        if isinstance(found, Item):
            found.values["created_at"] = started + timedelta(microseconds=number)
        if not isinstance(found, Edge):
            yield found
    for number, line in _lines(path):
        found = _found(number, line)
        if isinstance(found, Edge):
            yield found


def node_id(name: str) -> str:
    """Return the id of the entity of this name. Raises NotAMemoryError for what cannot be a name."""
    if len(name) > _MAX_NAME:
        raise NotAMemoryError(f"a name must be at most {_MAX_NAME} characters")
    spelt = name.encode(errors="surrogatepass")
    return _HASHED + hashlib.sha256(spelt).hexdigest() if len(spelt) > _MAX_NAMED_BYTES else _NAMED + name


def mention_of(name: str) -> dict[str, Any]:
    """Return the memory of a name that only relations mention; it is archived."""
    return {"id": node_id(name), "content": name, "metadata": {"name": name}}


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_PLAIN_BYTES + 1):
            number += 1
            whole = len(line) <= MAX_PLAIN_BYTES
            part = line
            while not part.endswith(b"\n") and (part := file.readline(MAX_PLAIN_BYTES)):
                whole = False
            if line.strip():
                yield number, line if whole else b""


def _found(number: int, line: bytes) -> Found:
    place = f"line {number}"
    if not line:
        return Bad(place, f"longer than {MAX_PLAIN_BYTES} bytes")
    try:
        value = parse_line(line)
        if isinstance(value, dict) and value.get("type") == "entity":
            return Item(place, _entity(value))
        if isinstance(value, dict) and value.get("type") == "relation":
            source, target, label = (_text(value, name) for name in ("from", "to", "relationType"))
            return Edge(place, source, target, label)
    except (NotJsonError, NotAMemoryError) as error:
        return Bad(place, str(error))
    return Bad(place, "is neither an entity nor a relation")


def _entity(value: dict[str, Any]) -> dict[str, Any]:
    name, kind = _text(value, "name"), _text(value, "entityType")
    observations = value.get("observations")
    if not isinstance(observations, list) or not all(isinstance(each, str) for each in observations):
        raise NotAMemoryError("observations must be an array of strings")
    if len(kind) > _MAX_NAME:
        raise NotAMemoryError(f"entityType must be at most {_MAX_NAME} characters")
    each_once = list(dict.fromkeys(observations))
    return {
        "id": node_id(name),
        "content": "\n".join((name, kind, *each_once)),
        "metadata": {"name": name, "entityType": kind, "observations": each_once},
    }


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise NotAMemoryError(f"{name} must be a string")
    return text
