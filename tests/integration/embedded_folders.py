"""Folders for embedded servers of tests, and processes that hold them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from postgres_memory._embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

FAST = {"fsync": "off", "shared_buffers": "16MB"}
PREAMBLE = """
import asyncio, os, pathlib, sys
from postgres_memory._embedded import EmbeddedServer
server = EmbeddedServer(pathlib.Path(sys.argv[1]), settings={"fsync": "off", "shared_buffers": "16MB"})
print(asyncio.run(server.start()), flush=True)
"""
HOLDER = PREAMBLE + "sys.stdin.read(); asyncio.run(server.stop())"


@contextmanager
def empty_folder() -> Iterator[Path]:
    # Not pytest's tmp_path: that lies in a folder closed to the user who runs root's server.
    folder = Path(tempfile.mkdtemp(prefix="pm-test-"))
    try:
        with stopped_at_the_end(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database_folder() -> Iterator[Path]:
    """A folder whose database exists and does not run: spares tests the second that initdb takes."""

    async def make(folder: Path) -> None:
        server = EmbeddedServer(folder, settings=FAST)
        await server.start()
        await server.stop()

    with empty_folder() as folder:
        asyncio.run(make(folder))
        yield folder


@contextmanager
def stopped_at_the_end(folder: Path) -> Iterator[Path]:
    yield folder
    left = server_pid(folder)
    if left is not None:
        os.kill(left, signal.SIGQUIT)
    assert left is None, "the test left a server behind"


def server_pid(folder: Path) -> int | None:
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return pid


def is_zombie(pid: int) -> bool:
    # In a container whose first process reaps nothing, a killed server remains as one.
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b""
    except OSError:
        return False


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def owner(path: Path) -> int:
    return path.stat().st_uid


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


async def fetchval(dsn: str, query: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def environment(dsn: str) -> dict[str, str]:
    """The environment of the server's processes."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE TEMP TABLE env (line text); COPY env FROM PROGRAM 'env'")
        lines = [row["line"] for row in await connection.fetch("SELECT line FROM env")]
    finally:
        await connection.close()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


@asynccontextmanager
async def process(script: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(folder),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def line(child: asyncio.subprocess.Process) -> str:
    assert child.stdout is not None
    return (await asyncio.wait_for(child.stdout.readline(), 60)).decode().strip()


async def finish(child: asyncio.subprocess.Process) -> None:
    await asyncio.wait_for(child.communicate(b""), 60)  # closes its input
    assert child.returncode == 0


async def eventually(check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not check():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)
