"""Embedding the memories that have no vector in a space yet: what `embed_pending` and `reembed` share.

Nothing is remembered between calls. What is missing is asked of the database, so that a call that was killed is gone on
with by the next one, and two at once only do some work twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING

from .._context import Context
from .._progress import tell
from ..errors import EmbedderError, SpaceError, UsageError
from ..space_records import MAX_FAILURES, EmbedFailure, EmbedResult

if TYPE_CHECKING:
    from asyncpg import Record

    from ..embedding.spaces import SpaceEmbedder
    from ..embedding.vectors import Vectors

#: Embedded where a batch failed, to tell an embedder that is down from one that refuses a text.
_PROBE = "memory"
#: Each pass takes what others changed during the one before; with writers that never pause, there is no last one.
_PASSES = 20

Progress = Callable[[int, int], object]


@dataclass(slots=True)
class Filling:
    """How much of a space to fill, how fast, and how far it is."""

    context: Context
    embedder: SpaceEmbedder
    batch_size: int
    limit: int | None = None
    rate: float | None = None
    progress: Progress | None = None
    embedded: int = 0
    changed: int = 0
    failed: list[EmbedFailure] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    total: int = 0

    async def run(self) -> EmbedResult:
        """Walk over what is missing, again and again until a walk finds nothing that can be embedded."""
        self.total = await self._pending()
        for _ in range(_PASSES):
            embedded, changed = self.embedded, self.changed
            read = await self._pass()
            if self._wanted() == 0 or (self.embedded, self.changed) == (embedded, changed):
                break
            if read < self.batch_size and self.changed == changed:
                break  # all that was missing just now; who goes on writing must not keep this going
        return EmbedResult(
            space=self.embedder.space,
            embedded=self.embedded,
            changed=self.changed,
            failures=len(self.refused),
            failed=tuple(self.failed),
            pending=await self._pending(),
        )

    async def _pass(self) -> int:
        """Embed what is missing from the first memory to the last, and return how many that was."""
        from .._sql.pending import find_pending

        after = read = 0
        while wanted := self._wanted():
            began = monotonic()
            rows = await self.context.fetch(find_pending, self._key() | {"after": after, "limit": wanted})
            if not rows:
                break
            after, read = rows[-1]["seq"], read + len(rows)
            await self._embed([row for row in rows if row["seq"] not in self.refused])
            done = self.embedded + self.changed + len(self.refused)
            await tell(self.progress, done, max(done, self.total))
            if self.rate is not None:
                await asyncio.sleep(began + len(rows) / self.rate - monotonic())
            if len(rows) < wanted:
                break
        return read

    def _wanted(self) -> int:
        if self.limit is None:
            return self.batch_size
        return min(self.batch_size, self.limit - self.embedded)

    async def _embed(self, rows: list[Record]) -> None:
        if not rows:
            return
        try:
            vectors = await self.embedder.embed([row["content"] for row in rows])
        except EmbedderError as error:
            if len(rows) > 1:
                # If that fails as well it is the embedder, and all of this can wait.
                await self.embedder.embed([_PROBE])
                middle = len(rows) // 2
                await self._embed(rows[:middle])
                await self._embed(rows[middle:])
                return
            await self.embedder.embed([_PROBE])
            self._refuse(rows[0], error)
        else:
            await self._write(rows, vectors)

    def _refuse(self, row: Record, error: EmbedderError) -> None:
        self.refused.add(row["seq"])
        if len(self.failed) < MAX_FAILURES:
            self.failed.append(EmbedFailure(row["id"], error.problem))

    async def _write(self, rows: list[Record], vectors: Vectors) -> None:
        from .._sql.pending import embed_memories

        parameters = self._key() | {
            "dimensions": vectors.shape[1],
            "seqs": [row["seq"] for row in rows],
            "digests": [sha256(row["content"].encode()).digest() for row in rows],
            "vectors": vectors.ravel().tolist(),
        }
        (written,) = await self.context.fetch(embed_memories, parameters)
        if not written["spaces"]:
            raise SpaceError(self.context.namespace, self.embedder.space, "was dropped while it was filled")
        self.embedded += written["embedded"]
        self.changed += len(rows) - written["embedded"]

    async def _pending(self) -> int:
        from .._sql.pending import count_pending

        (row,) = await self.context.fetch(count_pending, self._key())
        return int(row["pending"])

    def _key(self) -> dict[str, object]:
        return {"namespace": self.context.namespace, "space": self.embedder.space}


def refuse_transaction(context: Context, verb: str) -> None:
    """Raise UsageError inside a transaction, which would hold its connection and its locks all the while."""
    if context.connection is not None:
        raise UsageError(f"{verb}() works in transactions of its own; call it outside of a transaction")
