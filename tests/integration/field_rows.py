"""What is embedded of each field, in the database and by a model of it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import asyncpg

from postgres_memory import MemoryRecord
from postgres_memory.embedding.fields import check_fields
from tests.conftest import Database
from tests.embedders import word_vector

#: What the tests embed: the content, one string, each of an array, and one of each of an array.
FIELDS = ("content", "metadata.summary", "metadata.facts[*]", "metadata.notes[*].text")

Rows = dict[str, dict[str, list[float] | None]]


async def field_rows(database: Database, space: str = "words", namespace: str = "default") -> Rows:
    """Return every row there is of each memory, by id and field."""
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        rows = await connection.fetch(
            "SELECT m.id, e.field, e.embedding::real[] AS embedding FROM memory.memories m "
            "LEFT JOIN memory.memory_embeddings e ON e.namespace = m.namespace AND e.seq = m.seq AND e.space = $2 "
            "WHERE m.namespace = $1 ORDER BY m.seq, e.field",
            namespace,
            space,
        )
    finally:
        await connection.close()
    found: Rows = {}
    for row in rows:
        of_memory = found.setdefault(row["id"], {})
        if row["field"] is not None:
            of_memory[row["field"]] = row["embedding"]
    return found


def there(rows: Rows) -> Rows:
    """Return the rows that hold a vector."""
    return {
        id_: {field: vector for field, vector in of_memory.items() if vector is not None}
        for id_, of_memory in rows.items()
    }


def expected(records: Iterable[MemoryRecord], fields: Iterable[str] = FIELDS) -> Rows:
    """Return what rows there are when nothing waits."""
    chosen = check_fields(list(fields))
    rows: Rows = {}
    for record in records:
        texts = chosen.strings(record.metadata) | ({"": record.content} if chosen.content else {})
        rows[record.id] = {field: word_vector(text) for field, text in texts.items()}
    return rows


def cosine(left: list[float], right: list[float]) -> float:
    """Return the cosine similarity, 0 for a zero vector."""
    lengths = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / lengths if lengths else 0.0
