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
from typing import TYPE_CHECKING, NamedTuple

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


class _Text(NamedTuple):
    """A text that has no vector: of which memory, and which of its fields."""

    seq: int
    id: str
    field: str
    text: str

    @property
    def key(self) -> tuple[int, str]:
        return self.seq, self.field


def _texts(row: Record) -> list[_Text]:
    named = zip(row["fields"] or (), row["texts"] or (), strict=True)
    return [_Text(row["seq"], row["id"], field, text) for field, text in named]


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
    refused: set[tuple[int, str]] = field(default_factory=set)
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
            failures=self._failures,
            failed=tuple(self.failed),
            pending=await self._pending(),
        )

    async def _pass(self) -> int:
        """Embed what is missing from the first memory to the last, and return how many memories that was."""
        from .._sql.pending import find_pending, take_outdated_away

        after = read = 0
        while wanted := self._wanted():
            began = monotonic()
            page = self._key() | {"after": after, "limit": wanted}
            rows = await self.context.fetch(find_pending, page, self.context.fields)
            if not rows:
                break
            after, read = rows[-1]["seq"], read + len(rows)
            outdated = [row["seq"] for row in rows if row["outdated"]]
            if outdated:
                await self.context.fetch(take_outdated_away, self._key() | {"seqs": outdated})
            await self._fill([text for row in rows for text in _texts(row) if text.key not in self.refused])
            done = self.embedded + self.changed + self._failures
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

    @property
    def _failures(self) -> int:
        """How many memories have a text that the embedder refuses."""
        return len({seq for seq, _ in self.refused})

    async def _fill(self, texts: list[_Text]) -> None:
        """Embed some texts, and count their memories."""
        embedded = await self._embed(texts)
        refused = {seq for seq, _ in self.refused}
        self.embedded += len(embedded)
        self.changed += len({text.seq for text in texts} - embedded - refused)

    async def _embed(self, texts: list[_Text]) -> set[int]:
        """Return the numbers of the memories that have a vector more."""
        if not texts:
            return set()
        try:
            vectors = await self.embedder.embed([text.text for text in texts])
        except EmbedderError as error:
            # If that fails as well it is the embedder, and all of this can wait.
            await self.embedder.embed([_PROBE])
            if len(texts) > 1:
                middle = len(texts) // 2
                return await self._embed(texts[:middle]) | await self._embed(texts[middle:])
            self._refuse(texts[0], error)
            return set()
        return await self._write(texts, vectors)

    def _refuse(self, text: _Text, error: EmbedderError) -> None:
        self.refused.add(text.key)
        if len(self.failed) < MAX_FAILURES:
            self.failed.append(EmbedFailure(text.id, error.problem))

    async def _write(self, texts: list[_Text], vectors: Vectors) -> set[int]:
        from .._sql.pending import embed_memories

        parameters = self._key() | {
            "dimensions": vectors.shape[1],
            "seqs": [text.seq for text in texts],
            "fields": [text.field for text in texts],
            "digests": [sha256(text.text.encode()).digest() for text in texts],
            "vectors": vectors.ravel().tolist(),
        }
        fielded = any(text.field for text in texts)
        (written,) = await self.context.fetch(embed_memories, parameters, fielded)
        if not written["spaces"]:
            raise SpaceError(self.context.namespace, self.embedder.space, "was dropped while it was filled")
        return set(written["embedded"])

    async def _pending(self) -> int:
        from .._sql.pending import count_pending

        (row,) = await self.context.fetch(count_pending, self._key(), self.context.fields)
        return int(row["pending"])

    def _key(self) -> dict[str, object]:
        return {"namespace": self.context.namespace, "space": self.embedder.space}


def refuse_transaction(context: Context, verb: str) -> None:
    """Raise UsageError inside a transaction, which would hold its connection and its locks all the while."""
    if context.connection is not None:
        raise UsageError(f"{verb}() works in transactions of its own; call it outside of a transaction")
