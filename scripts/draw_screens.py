"""Draw docs/screens/*.svg: what commands print, from a real run on an embedded database with a fixed set of memories.

python scripts/draw_screens.py [FOLDER], with the extra `embedded`. Times and sizes in the pictures are the run's.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from postgres_memory import PostgresMemory
from postgres_memory._embedded import EmbeddedServer
from postgres_memory.config import DSN_VARIABLES, MIGRATION_DSN_VARIABLE, Dsn
from postgres_memory.migrations import migrate

FOLDER = Path(__file__).parent.parent / "docs" / "screens"

#: Each picture, by its name, and the command that it shows.
SCREENS = {
    "help": "postgres-memory --help",
    "demo": "postgres-memory demo",
    "recall": "postgres-memory recall 'What did Ben pay the plumber?' --limit 5 --explain",
    "graph": "postgres-memory graph moved --depth 3",
    "stats": "postgres-memory stats --days 60",
    "doctor": "postgres-memory doctor",
}
_COLUMNS = 118
_NAMESPACE = "household"

_SAID = (
    ("plumber", "Ana", "Has the plumber been here?"),
    ("plumber", "Ben", "This morning. He replaced the valve under the kitchen sink."),
    ("plumber", "Ana", "And how much did he want?"),
    ("plumber", "Ben", "Ninety euros, in cash."),
    ("garden", "Ana", "The garden hose leaks at the valve."),
    ("garden", "Ben", "I will order a new one."),
    (None, None, "The plumber's number is on the kitchen door."),
    (None, None, "Rent is due on the third of each month."),
)
_FACTS = {
    "offer": "Mira was offered a job in Porto.",
    "moved": "Mira moved to Porto.",
    "flat": "Mira rents a flat near the river.",
    "rent": "The flat costs 900 euros a month.",
    "berlin": "Mira lives in Berlin.",
}
_RELATED = (
    ("offer", "moved", "precedes", ""),
    ("moved", "berlin", "contradicts", ""),
    ("flat", "moved", "supports", "same city"),
    ("rent", "flat", "extends", ""),
)
#: Variables that name another database, or another memory.
_NAMING = (*DSN_VARIABLES, MIGRATION_DSN_VARIABLE)
#: What rich has a picture fetch from somebody else's server, and says of itself.
_FETCHED = re.compile(r"@font-face \{.*?\}\s*|<!-- .*? -->\s*", re.DOTALL)


def main(folder: Path = FOLDER) -> None:
    """Draw all pictures into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="pm-screens-"))
    try:
        asyncio.run(_draw(folder, data))
    finally:
        shutil.rmtree(data, ignore_errors=True)


async def _draw(folder: Path, data: Path) -> None:
    server = EmbeddedServer(data)
    dsn = await server.start()
    try:
        await migrate(Dsn(dsn))
        async with PostgresMemory(dsn, namespace=_NAMESPACE) as memory:
            await _fill(memory)
        await _execute(dsn, "ANALYZE")  # as autovacuum does, a minute later
        for name, command in SCREENS.items():
            if name == "doctor":
                await _execute(dsn, "DROP INDEX memory.memories_updated_at_idx")  # something to find
            printed = await asyncio.to_thread(_printed, command, data)
            (folder / f"{name}.svg").write_text(picture(command, printed), encoding="utf-8")
    finally:
        await server.stop()


async def _fill(memory: PostgresMemory) -> None:
    for number, (thread, speaker, content) in enumerate(_SAID):
        metadata = {"speaker": speaker} if speaker else {}
        await memory.add(content, id=f"{thread or 'note'}-{number}", thread_id=thread, metadata=metadata)
    for name, content in _FACTS.items():
        await memory.add(content, id=name)
    for source, target, kind, label in _RELATED:
        await memory.relate(source, target, kind, label=label)
    chance, now = random.Random(1), datetime.now(UTC)  # noqa: S311 -- for how many there are on each day
    await memory.add_many(
        {
            "content": f"Note {number}: {chance.choice(('tea', 'train', 'garden', 'invoice'))}.",
            "memory_type": chance.choice(("session", "persistent", "persistent")),
            "created_at": now - timedelta(days=59 * chance.random() ** 2),
        }
        for number in range(2_000)
    )


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _printed(command: str, data: Path) -> str:
    """Return what a command prints on a terminal."""
    program, *arguments = shlex.split(command)
    assert program == "postgres-memory"
    done = subprocess.run(
        [sys.executable, "-c", "from postgres_memory.cli.entry import main; main()", *arguments],
        env={
            **{name: value for name, value in os.environ.items() if name not in _NAMING},
            "POSTGRES_MEMORY_EMBEDDED_DIR": str(data),
            "POSTGRES_MEMORY_NAMESPACE": _NAMESPACE,
            "FORCE_COLOR": "1",
            "COLUMNS": str(_COLUMNS),
            "PYTHONIOENCODING": "utf-8",
        },
        capture_output=True,
        check=False,
    )
    if done.returncode not in (0, 1) or b"Traceback" in done.stderr:
        raise RuntimeError(f"{command}: {done.stderr.decode()}")
    return done.stdout.decode()


def picture(command: str, printed: str) -> str:
    """Return an SVG of a terminal in which a command was called. It fetches nothing, no font either."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {command}\n{printed.rstrip()}"), soft_wrap=False)
    drawn = console.export_svg(title="", theme=MONOKAI, unique_id="screen")
    return _FETCHED.sub("", drawn).replace("Fira Code, monospace", "monospace")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
