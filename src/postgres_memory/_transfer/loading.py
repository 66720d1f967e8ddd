"""The batches of an export into the database, within the transaction of the import."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from .._context import Context
from .._writing.embedding import NO_VECTOR
from ..bulk_records import ImportResult
from ..errors import ConflictError, NotFoundError
from .batches import Batch, LinkBatch, MemoryBatch, MessageBatch, json_array
from .decoding import LinkRow

OnConflict = Literal["error", "ignore", "update"]


class Loader:
    """Writes batch after batch and counts what became of the lines."""

    def __init__(self, context: Context, on_conflict: OnConflict) -> None:
        self.done = 0
        self._context = context
        self._on_conflict = on_conflict
        self._key: dict[str, Any] = {"namespace": context.namespace}
        self._now: datetime | None = None
        self._own = Numbers()
        #: The session whose messages come, and whether they are taken.
        self._session = ("", True)
        self._stored = self._memories = 0
        self._relations = [0, 0]
        self._messages = [0, 0]

    @property
    def result(self) -> ImportResult:
        """What was done so far."""
        return ImportResult(
            stored=self._stored,
            ignored=self._memories - self._stored,
            relations=self._relations[True],
            relations_ignored=self._relations[False],
            messages=self._messages[True],
            messages_ignored=self._messages[False],
        )

    async def load(self, batch: Batch) -> None:
        """Write one batch. Raises ConflictError or NotFoundError."""
        if isinstance(batch, MemoryBatch):
            await self._load_memories(batch)
        elif isinstance(batch, LinkBatch):
            await self._load_links(batch)
        else:
            await self._load_messages(batch)
        self.done += batch.size

    async def _load_memories(self, batch: MemoryBatch) -> None:
        from .._sql.transfer import import_memories

        updating = self._on_conflict == "update"
        parameters = self._key | {"rows": batch.json}
        if updating:
            await self._refuse_held_contents(batch)
            parameters |= NO_VECTOR | {"now": await self._time()}
        rows = await self._context.fetch(import_memories, parameters, updating)
        if self._on_conflict == "error" and len(rows) < batch.size:
            raise await self._conflict(batch, {row["id"] for row in rows})
        if self._on_conflict == "ignore":
            self._own.add(row["seq"] for row in rows)
        self._stored += len(rows)
        self._memories += batch.size

    async def _time(self) -> datetime:
        """Return the database's time at the first call."""
        from .._sql.bulk import allocate

        if self._now is None:
            (row,) = await self._context.fetch(allocate, self._key | {"count": 0, "threads": []})
            self._now = row["now"]
        return self._now

    async def _refuse_held_contents(self, batch: MemoryBatch) -> None:
        """Refuse deduped contents that other memories hold: an update goes by id alone."""
        from .._sql.transfer import find_content_holders

        if not any(row.deduped for row in batch.rows):
            return
        rows = await self._context.fetch(find_content_holders, self._key | {"rows": batch.json})
        if rows:
            text = f"memory {rows[0]['holder']!r} holds the deduped content of {rows[0]['id']!r} already"
            raise ConflictError(text, namespace=self._context.namespace, id=rows[0]["holder"])

    async def _conflict(self, batch: MemoryBatch, written: set[str]) -> ConflictError:
        """Return the error for the first memory that was not written."""
        from .._sql.transfer import find_memories_by_id

        namespace = self._context.namespace
        missed = next((row for row in batch.rows if row.id not in written), None)
        if missed is None:
            return ConflictError(
                f"memory {batch.twice!r} is given twice", namespace=namespace, id=batch.twice
            )
        there = await self._context.fetch(find_memories_by_id, self._key | {"ids": [missed.id]})
        what = f"a memory {missed.id!r}" if there else f"a memory with the deduped content of {missed.id!r}"
        text = f"line {missed.line}: there is {what} already"
        if self._on_conflict == "error":
            text += ", and on_conflict is 'error'"
        return ConflictError(text, namespace=namespace, id=missed.id)

    async def _load_links(self, batch: LinkBatch) -> None:
        from .._sql.bulk import insert_relations
        from .._sql.transfer import import_supersedes

        taken = await self._taken(batch)
        if batch.kind == "relation":
            # Of two with the same key one was left out of the rows.
            self._relations[True] += len(taken)
            self._relations[False] += batch.size - len(taken)
        if not taken:
            return
        if batch.kind == "relation":
            lines = ",".join(f"{{{row.fields}}}" for row in taken)
            await self._context.fetch(insert_relations, self._key | {"relations": f"[{lines}]"})
        else:
            rows = json_array([row.fields for row in taken])
            await self._context.fetch(import_supersedes, self._key | {"rows": rows})

    async def _taken(self, batch: LinkBatch) -> list[LinkRow]:
        """Return the links to write. Raises NotFoundError for a missing end, unless ignoring may have left it out."""
        from .._sql.transfer import find_memories_by_id

        ids = list({row.source for row in batch.rows} | {row.target for row in batch.rows})
        found = await self._context.fetch(find_memories_by_id, self._key | {"ids": ids})
        seqs = {row["id"]: row["seq"] for row in found}
        if self._on_conflict == "ignore":
            return [row for row in batch.rows if row.target in seqs and seqs.get(row.source) in self._own]
        for row in batch.rows:
            missing = tuple(id_ for id_ in (row.source, row.target) if id_ not in seqs)
            if missing:
                raise NotFoundError(self._context.namespace, missing, f", which line {row.line} is about")
        return list(batch.rows)

    async def _load_messages(self, batch: MessageBatch) -> None:
        from .._sql.transfer import import_messages

        decided = await self._decide([row.session_id for row in batch.rows])
        taken = [row for row in batch.rows if decided[row.session_id]]
        if taken:
            rows = json_array([row.fields for row in taken])
            await self._context.fetch(import_messages, self._key | {"rows": rows})
        self._messages[True] += len(taken)
        self._messages[False] += batch.size - len(taken)
        last = batch.rows[-1].session_id
        self._session = (last, decided[last])

    async def _decide(self, sessions: Iterable[str]) -> dict[str, bool]:
        """Say of each session whether its messages are taken, and make room for those that replace others."""
        from .._sql.transfer import delete_sessions, find_sessions

        ids = [id_ for id_ in dict.fromkeys(sessions) if id_ != self._session[0]]
        rows = await self._context.fetch(find_sessions, self._key | {"ids": ids}) if ids else []
        there = sorted(row["session_id"] for row in rows)
        if there and self._on_conflict == "error":
            text = f"session {there[0]!r} has messages already"
            raise ConflictError(text, namespace=self._context.namespace, id=there[0])
        if there and self._on_conflict == "update":
            await self._context.fetch(delete_sessions, self._key | {"ids": there})
        ignored = set(there) if self._on_conflict == "ignore" else set()
        return {id_: id_ not in ignored for id_ in ids} | {self._session[0]: self._session[1]}


class Numbers:
    """A set of numbers that mostly follow each other, as those of one insertion order do, in little memory."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, numbers: Iterable[int]) -> None:
        """Add numbers larger than those before them."""
        for number in sorted(numbers):
            if self._ends and self._ends[-1] == number:
                self._ends[-1] += 1
            else:
                self._starts.append(number)
                self._ends.append(number + 1)

    def __contains__(self, number: int | None) -> bool:
        if number is None:
            return False
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]
