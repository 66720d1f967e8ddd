"""A namespace with a bit of everything, and files made from its export: whole, changed, sealed again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from postgres_memory import PostgresMemory, PostgresSession
from postgres_memory.records import MemoryRelationType

_NAMES = {"memory": "memories", "supersedes": "supersedes", "relation": "relations", "message": "messages"}


async def build(memory: PostgresMemory, dsn: str) -> None:
    """Fill a namespace: 4 memories, one of which replaced another, 2 relations, 3 messages of 2 sessions."""
    await memory.add("first", id="a", tags=["x", "é"], metadata={"n": 10**29 + 1, "f": 0.1, "big": 1e23})
    await memory.add('second\n\u2028\u0085 \\ "quoted" 🦊', id="b", importance=0.1, dedupe="content")
    await memory.supersede("a", "third", id="c", expires_at=datetime(2999, 1, 1, 0, 0, 0, 7, tzinfo=UTC))
    await memory.add("", id="d", memory_type="session", session_id="s")
    await memory.relate("b", "c", MemoryRelationType.SUPPORTS, label="why", confidence=0.3, metadata={"k": 1})
    await memory.relate("c", "a", MemoryRelationType.FOLLOWS)
    await memory.update("b", importance=0.2)
    await memory.archive("d")
    for session_id, messages in (("s", [{"n": 1}, {"n": 2}]), ("t", [{"role": "user", "content": "ü"}])):
        async with PostgresSession(dsn, session_id, namespace=memory.namespace) as session:
            await session.add_messages(list(messages))


def parts_of(data: bytes) -> list[dict[str, Any]]:
    """Return the lines of a file as objects."""
    return [json.loads(line) for line in data.splitlines()]


def sealed(lines: list[dict[str, Any]]) -> bytes:
    """Return a file of these lines, the counts of the header and the trailer made right."""
    kinds = [line.get("kind") for line in lines[1:-1]]
    counts = {name: kinds.count(kind) for kind, name in _NAMES.items()}
    header = lines[0] | {"counts": counts}
    body = b"".join(_spelt(line) for line in (header, *lines[1:-1]))
    return body + _spelt({"kind": "trailer", "counts": counts, "sha256": sha256(body).hexdigest()})


def changed(data: bytes, kind: str, position: int = 0, /, **values: Any) -> bytes:
    """Return a well sealed file in which one line of ``kind`` has other values; None for a key takes it away."""
    lines = parts_of(data)
    place = [index for index, line in enumerate(lines) if line.get("kind") == kind][position]
    lines[place] |= values
    return sealed(lines)


def _spelt(line: dict[str, Any]) -> bytes:
    return f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n".encode()


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield files that are not as they were written, each with what was done to it."""
    lines = data.splitlines(keepends=True)
    for count in range(1, len(lines)):
        yield f"cut after line {count}", b"".join(lines[:count])
        yield f"cut within line {count + 1}", b"".join(lines[:count]) + lines[count][:-5]
    yield "cut before the last newline", data[:-1]
    yield "header only", lines[0]
    yield "cut within the header", data[:20]
    yield "trailer twice", data + lines[-1]
    yield "a line after the trailer", data + lines[1]
    yield "a blank line after the trailer", data + b"\n"
    yield "a blank line within", b"".join([*lines[:2], b"\n", *lines[2:]])
    yield "two files in one", data + data
    for place in range(1, len(lines) - 1):
        yield f"line {place + 1} missing", b"".join(lines[:place] + lines[place + 1 :])
        yield f"line {place + 1} twice", b"".join([*lines[: place + 1], *lines[place:]])
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        yield f"lines {place + 1} and {place + 2} swapped", b"".join(swapped)
    yield "CRLF", data.replace(b"\n", b"\r\n")
    yield "CRLF but for the header", lines[0] + b"".join(lines[1:]).replace(b"\n", b"\r\n")
    yield "a byte order mark", b"\xef\xbb\xbf" + data
    yield "no header", b"".join(lines[1:])
    yield "no header, a byte order mark", b"\xef\xbb\xbf" + b"".join(lines[1:])
