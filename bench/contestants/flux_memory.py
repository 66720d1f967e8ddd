"""flux-agents' VectorMemory: in RAM, in pure Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flux.memory import VectorMemory

from contestants.interface import Contestant, Item


class Contender(Contestant):
    name = "flux"
    note = "in RAM, not durable, by its own pure-Python hash embedding; no bulk, no filter, no index"
    distributions = ("flux-agents",)
    in_process = True

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.memory = VectorMemory()

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        await self.memory.store(content, metadata)

    async def bulk(self, items: Sequence[Item]) -> None:
        for content, metadata in items:
            await self.memory.store(content, metadata)

    async def search(self, query: str, limit: int) -> list[int]:
        return [entry.metadata["i"] for entry in await self.memory.search(query, limit)]
