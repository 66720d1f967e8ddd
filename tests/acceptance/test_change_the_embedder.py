"""The how-to for changing the embedder, followed to the letter while others write and read."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path

from postgres_memory import PostgresMemory, Ranking
from tests.conftest import Database
from tests.embedders import embeddings, spaces, word_vector

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "change-the-embedder.md"
_, REEMBED, SWITCH, RESTARTED, CLEAN_UP = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
)

OLD, NEW = 32, 24

#: Nearness of vectors and nothing else.
VECTORS = Ranking(lexical=0, vector=1, question=1, thread=0, context=0)

#: Takes the place of the module that the page shows, which asks an endpoint.
EMBEDDERS = f"""
import asyncio
from tests.embedders import word_vector

async def new_embedder(texts):
    await asyncio.sleep(0.1)
    return [word_vector(text, {NEW}) for text in texts]
"""


async def embed_old(texts: Sequence[str]) -> list[list[float]]:
    return [word_vector(text, OLD) for text in texts]


async def embed_new(texts: Sequence[str]) -> list[list[float]]:
    return [word_vector(text, NEW) for text in texts]


class Worker:
    """What a process of the application does: it writes, and finds what it wrote, by vectors alone."""

    def __init__(self, memory: PostgresMemory, name: str) -> None:
        self.memory = memory
        self.name = name
        self.written = 0
        self._over = False
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while not self._over:
            content = f"{self.name} {self.written}"
            await self.memory.store(content)
            self.written += 1
            hits = await self.memory.recall(content, limit=3, ranking=VECTORS)
            assert content in [hit.record.content for hit in hits]
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._over = True
        await self._task


async def start(folder: Path, name: str, script: str, dsn: str) -> Process:
    (folder / name).write_text(script)
    environment = {
        **os.environ,
        "POSTGRES_MEMORY_DSN": dsn,
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, str(folder / name), env=environment, stdout=PIPE, stderr=PIPE
    )


async def run(folder: Path, name: str, script: str, dsn: str) -> str:
    process = await start(folder, name, script, dsn)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_the_page_changes_the_embedder_under_writers_and_readers(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "embedders.py").write_text(EMBEDDERS)
    old = PostgresMemory(database.dsn, namespace="support-bot", embedder=embed_old, space="old-model")
    new = PostgresMemory(database.dsn, namespace="support-bot", embedder=embed_new, space="new-model")
    async with old, new:
        await old.add_many(f"older {number}" for number in range(500))
        working = [Worker(old, "first"), Worker(old, "second")]

        filling = await start(tmp_path, "reembed.py", REEMBED, database.dsn)
        assert filling.stdout is not None
        assert re.fullmatch(rb"100 of \d{3}\n", await asyncio.wait_for(filling.stdout.readline(), 30))
        filling.send_signal(signal.SIGKILL)
        await filling.communicate()
        found = await embeddings(database, "new-model", "support-bot")
        done = sum(vector is not None for vector in found.values())
        assert 100 <= done < 500
        assert await spaces(database, "support-bot") == {"old-model": "active", "new-model": "filling"}

        told = await run(tmp_path, "reembed.py", REEMBED, database.dsn)
        counted = re.search(r"embedded=(\d+)", told)
        assert counted is not None
        embedded = int(counted[1])
        assert embedded < 500 - done + 2 * max(process.written for process in working) + 2

        told = await run(tmp_path, "switch.py", SWITCH, database.dsn)
        assert re.search(r"^new-model active \d{3}", told, re.MULTILINE)
        assert re.search(r"^old-model retired \d{3}", told, re.MULTILINE)

        # Processes are restarted one after another.
        working.append(Worker(new, "third"))
        await asyncio.sleep(0.3)
        await working.pop(0).stop()
        told = await run(tmp_path, "restarted.py", RESTARTED, database.dsn)
        assert told == "The deployment is done.\n"
        await working.pop(0).stop()

        told = await run(tmp_path, "clean_up.py", CLEAN_UP, database.dsn)
        assert re.search(r"^EmbedResult\(space='new-model', embedded=[1-9]", told)
        assert re.search(r"^\d{3,} embeddings dropped$", told, re.MULTILINE)
        await working.pop(0).stop()

        assert await spaces(database, "support-bot") == {"new-model": "active"}
        found = await embeddings(database, "new-model", "support-bot")
        assert len(found) == await new.count() > 500
        assert found == {content: word_vector(content, NEW) for content in found}
