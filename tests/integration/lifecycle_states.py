"""What the tests of the lifecycle share: memories with short contents, and how their versions stand."""

from __future__ import annotations

from itertools import pairwise

from postgres_memory import PostgresMemory


async def add(memory: PostgresMemory, *ids: str) -> None:
    for id_ in ids:
        await memory.add(f"fact {id_}", id=id_)


async def replaced(memory: PostgresMemory, *ids: str) -> None:
    """Supersede the first id by the second, that one by the third, and so on."""
    for old, new in pairwise(ids):
        await memory.supersede(old, f"fact {new}", id=new)


async def statuses(memory: PostgresMemory, id_: str) -> list[tuple[str, str]]:
    return [(record.id, record.status.value) for record in await memory.history(id_)]


async def found(memory: PostgresMemory) -> list[str]:
    return [entry.content for entry in await memory.search("fact", limit=100)]
