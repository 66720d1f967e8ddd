"""Draw what `related` found: as a text tree, as Mermaid, as Graphviz DOT, or as data for JSON. Pure functions.

::

    related = await memory.related(id, direction="both", max_depth=3)
    print(text_tree(await memory.get(id), related))

Every drawing shows the best way to each memory, not every relation there is between them. Memories on a way that are
not among the results themselves are shown by their id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .graph_records import SYMMETRIC, Related, Relation
from .records import MemoryRecord

MAX_SHOWN = 60
"""How many characters of a content a drawing shows; data for JSON has all of them."""


_Key = tuple[str, str, str, str]


def text_tree(start: MemoryRecord, related: Related) -> str:
    """Return the ways from ``start`` as a tree of lines, best first.

    A branch reads from the memory above it: ``supports →`` leads to the one in the line, ``← supports`` comes from it,
    ``— related —`` is said of both. The number is the relation's confidence.
    """
    contents = _contents(start, related)
    lines = [_node(start.id, contents), *_branches(_grown(related), contents, "")]
    return "\n".join([*lines, *_notes(related)])


def mermaid(start: MemoryRecord, related: Related) -> str:
    """Return a Mermaid flowchart."""
    contents, numbers = _contents(start, related), _numbers(start, related)
    lines = ["flowchart LR"]
    lines += [f'    n{number}["{_mermaid_text(_node(id_, contents))}"]' for id_, number in numbers.items()]
    for relation in _relations(related):
        line = "---" if relation.relation_type in SYMMETRIC else "-->"
        ends = f"n{numbers[relation.source_id]}", f"n{numbers[relation.target_id]}"
        lines.append(f'    {ends[0]} {line}|"{_mermaid_text(_named(relation))}"| {ends[1]}')
    return "\n".join([*lines, *(f"    %% {note}" for note in _notes(related))])


def dot(start: MemoryRecord, related: Related) -> str:
    """Return a directed graph in the DOT language of Graphviz."""
    contents, numbers = _contents(start, related), _numbers(start, related)
    lines = ["digraph memory {", "    rankdir=LR;", "    node [shape=box];"]
    lines += [f"    n{number} [label={_dot_text(_node(id_, contents))}];" for id_, number in numbers.items()]
    for relation in _relations(related):
        way = ", dir=none" if relation.relation_type in SYMMETRIC else ""
        ends = f"n{numbers[relation.source_id]} -> n{numbers[relation.target_id]}"
        lines.append(f"    {ends} [label={_dot_text(_named(relation))}{way}];")
    return "\n".join([*lines, *(f"    // {note}" for note in _notes(related)), "}"])


def graph_data(start: MemoryRecord, related: Related) -> dict[str, Any]:
    """Return the graph as dicts and lists that JSON can hold: ``start``, ``memories``, ``relations`` and the signs.

    Each memory has the path that leads to it; each relation is there once, as it is stored.
    """
    return {
        "start": _memory_data(start),
        "memories": [
            {
                **_memory_data(item.record),
                "depth": item.depth,
                "path_confidence": item.confidence,
                "path": list(item.path),
            }
            for item in related.items
        ],
        "relations": [
            {
                "source_id": relation.source_id,
                "target_id": relation.target_id,
                "relation_type": relation.relation_type.value,
                "label": relation.label,
                "confidence": relation.confidence,
                "metadata": relation.metadata,
            }
            for relation in (relation.stored for relation in _relations(related))
        ],
        "truncated": related.truncated,
        "has_more": related.has_more,
    }


def _memory_data(record: MemoryRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "content": record.content,
        "memory_type": record.memory_type.value,
        "status": record.status.value,
        "importance": record.importance,
        "confidence": record.confidence,
        "tags": list(record.tags),
        "metadata": record.metadata,
    }


@dataclass(slots=True)
class _Branch:
    """A memory in the tree: how its parent leads to it, and what it leads to."""

    id: str
    step: Relation
    branches: dict[_Key, _Branch] = field(default_factory=dict)


def _grown(related: Related) -> dict[_Key, _Branch]:
    """Put the ways together where they begin alike, in the order of the results."""
    roots: dict[_Key, _Branch] = {}
    for item in related.items:
        level = roots
        for (_, id_), step in zip(pairwise(item.path), item.steps, strict=True):
            level = level.setdefault(_key(step), _Branch(id_, step)).branches
    return roots


def _branches(branches: dict[_Key, _Branch], contents: dict[str, str], indent: str) -> Iterator[str]:
    for place, branch in enumerate(branches.values(), 1):
        last = place == len(branches)
        arrow = _arrow(branch.step, branch.id)
        yield f"{indent}{'└─' if last else '├─'} {arrow} {_node(branch.id, contents)}"
        yield from _branches(branch.branches, contents, indent + ("   " if last else "│  "))


def _arrow(step: Relation, to: str) -> str:
    name = _named(step)
    if step.relation_type in SYMMETRIC:
        return f"— {name} —"
    return f"{name} →" if step.target_id == to else f"← {name}"


def _named(relation: Relation) -> str:
    label = f" [{_one_line(relation.label)}]" if relation.label else ""
    return f"{relation.relation_type.value}{label} {relation.confidence:.2f}"


def _contents(start: MemoryRecord, related: Related) -> dict[str, str]:
    return {record.id: record.content for record in (start, *(item.record for item in related.items))}


def _numbers(start: MemoryRecord, related: Related) -> dict[str, int]:
    ids = dict.fromkeys([start.id, *(id_ for item in related.items for id_ in item.path)])
    return {id_: number for number, id_ in enumerate(ids)}


def _relations(related: Related) -> list[Relation]:
    """Return every relation walked once, as it was read first."""
    first: dict[_Key, Relation] = {}
    for item in related.items:
        for step in item.steps:
            first.setdefault(_key(step), step)
    return list(first.values())


def _key(step: Relation) -> _Key:
    stored = step.stored
    return stored.source_id, stored.target_id, stored.relation_type.value, stored.label


def _notes(related: Related) -> list[str]:
    notes = []
    if related.has_more:
        notes.append("there are more memories than the limit shows")
    if related.truncated:
        notes.append("the walk was cut short by a cap: there may be more, and better ways")
    return notes


def _node(id_: str, contents: dict[str, str]) -> str:
    content = _one_line(contents.get(id_, ""))
    return f"{_one_line(id_)}: {content}" if content else _one_line(id_)


def _one_line(text: str) -> str:
    """Return the beginning of ``text`` on one line, with control characters spelt out."""
    beginning = text[: 10 * MAX_SHOWN]
    line = " ".join(beginning.split())
    cut = f"{line[:MAX_SHOWN]}…" if len(line) > MAX_SHOWN or len(text) > len(beginning) else line
    return "".join(
        repr(character)[1:-1] if unicodedata.category(character) in {"Cc", "Cs"} else character
        for character in cut
    )


def _mermaid_text(text: str) -> str:
    """Write as an entity whatever Mermaid might take for syntax, Markdown or HTML."""
    return "".join(
        character if character.isalnum() or character in " .,:…→←-" else f"#{ord(character)};"
        for character in text
    )


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
