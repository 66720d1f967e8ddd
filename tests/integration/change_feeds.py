"""Reading change feeds in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg

from postgres_memory import Change, PostgresMemory


async def read(memory: PostgresMemory, since: str | None = None) -> list[Change]:
    """Return what the feed holds now."""
    return [change async for change in memory.changes(since, follow=False)]


def told(changes: Sequence[Change]) -> list[tuple[str, str, int | None]]:
    """Return what is compared of changes."""
    return [(change.kind.value, change.id, change.version) for change in changes]


class Follower:
    """A task that follows a feed and notes what it is told."""

    def __init__(self, memory: PostgresMemory, since: str | None = None, poll_interval: float = 60.0) -> None:
        self.changes: list[Change] = []
        self._moved = asyncio.Event()
        self.task = asyncio.create_task(self._follow(memory, since, poll_interval))

    async def _follow(self, memory: PostgresMemory, since: str | None, poll_interval: float) -> None:
        async for change in memory.changes(since, poll_interval=poll_interval):
            self.changes.append(change)
            self._moved.set()

    async def until(self, count: int, seconds: float = 30.0) -> list[Change]:
        """Return the changes once there are so many. Fails where following does, and after so many seconds."""
        async with asyncio.timeout(seconds):
            while len(self.changes) < count:
                self._moved.clear()
                moved = asyncio.create_task(self._moved.wait())
                await asyncio.wait([moved, self.task], return_when=asyncio.FIRST_COMPLETED)
                moved.cancel()
                if self.task.done():
                    self.task.result()
                    break
        return self.changes

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


#: What every change of a row is noted by, whatever made it. A change that keeps the version is none to who reads.
JOURNAL = """
CREATE TABLE journal (number bigserial, kind text, id text, version bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  IF TG_TABLE_NAME = 'memory_relations' THEN
    INSERT INTO public.journal (kind, id) VALUES
      (CASE TG_OP WHEN 'DELETE' THEN 'unrelated' ELSE 'related' END, coalesce(NEW.source_id, OLD.source_id));
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO public.journal (kind, id, version) VALUES ('deleted', OLD.id, OLD.version);
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO public.journal (kind, id, version) VALUES ('added', NEW.id, NEW.version);
  ELSIF NEW.version <> OLD.version THEN
    INSERT INTO public.journal (kind, id, version) VALUES ('changed', NEW.id, NEW.version);
  END IF;
  RETURN NULL;
END$$;
ALTER FUNCTION note() SECURITY DEFINER;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON memory.memories FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON memory.memory_relations FOR EACH ROW EXECUTE FUNCTION note();
"""


async def journal(raw: asyncpg.Connection[asyncpg.Record]) -> list[tuple[str, str, int | None]]:
    """Return what was noted, and forget it."""
    rows = await raw.fetch("WITH d AS (DELETE FROM journal RETURNING *) SELECT * FROM d ORDER BY number")
    return [(row["kind"], row["id"], row["version"]) for row in rows]
