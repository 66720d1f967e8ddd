"""A server of the fault suite's own, which may be killed, restarted, and run out of disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from postgres_memory._embedded import EmbeddedServer, reachable_binaries, server_account

from ..conftest import Server
from .waiting import until

#: It is killed, but the machine is not: what it gave to the operating system is safe. What it confirms it must keep.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_connections": "40",
    "superuser_reserved_connections": "0",
    "deadlock_timeout": "50ms",
    "wal_recycle": "off",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
    "autovacuum": "off",
}
_MEGABYTE = 1 << 20


@dataclass
class Disk:
    """A small file system in memory. ``fill`` leaves no room on it, ``free`` does."""

    folder: Path
    mounted: bool = False

    def mount(self, megabytes: int) -> None:
        """Mount it, where that is allowed."""
        self.folder.mkdir(mode=0o700)
        account = server_account()
        options = f"size={megabytes}m,mode=0700" + (
            f",uid={account.uid},gid={account.gid}" if account else ""
        )
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        try:
            self.mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        except FileNotFoundError:
            self.mounted = False

    def unmount(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)

    def fill(self) -> None:
        with open(self.folder / "ballast", "ab", buffering=0) as ballast:
            for piece in (_MEGABYTE, 4096):
                try:
                    while ballast.write(b"\0" * piece) == piece:
                        pass
                except OSError:
                    pass

    def free(self) -> None:
        (self.folder / "ballast").unlink()


@dataclass
class BreakableServer:
    """PostgreSQL from the embedded wheel, in a folder of its own, with its log of writes on a small disk."""

    folder: Path
    wal: Disk = field(init=False)
    heap: Disk = field(init=False)
    server: Server = field(init=False)
    #: How many times it was harmed.
    faults: int = 0

    def __post_init__(self) -> None:
        self._embedded = EmbeddedServer(self.folder, settings=_SETTINGS)
        self.wal, self.heap = Disk(self.folder / "wal"), Disk(self.folder / "heap")

    async def start(self) -> None:
        """Start it, also after a crash."""
        self.server = Server(await self._embedded.start())

    async def make(self) -> None:
        await self.start()
        self.wal.mount(160)
        self.heap.mount(64)
        if self.wal.mounted:
            await self.stop("fast")
            log = self.folder / "data" / "pg_wal"
            await asyncio.to_thread(shutil.copytree, log, self.wal.folder / "pg_wal")
            account = server_account()
            for path in [self.wal.folder / "pg_wal", *(self.wal.folder / "pg_wal").rglob("*")]:
                if account:
                    os.chown(path, account.uid, account.gid)
            shutil.rmtree(log)
            log.symlink_to(self.wal.folder / "pg_wal")
            await self.start()
        if self.heap.mounted:
            await self.server.run(f"CREATE TABLESPACE small LOCATION '{self.heap.folder}'")

    async def stop(self, mode: str) -> None:
        """Stop it: ``fast`` ends the sessions, ``immediate`` is a crash."""
        account = server_account()
        cluster = self._embedded._cluster(reachable_binaries(account), account)
        await asyncio.to_thread(cluster._pg_ctl, "stop", "-m", mode)

    async def restart(self, mode: str) -> None:
        await self.stop(mode)
        await self.start()

    @property
    def pid(self) -> int | None:
        account = server_account()
        running = self._embedded._cluster(reachable_binaries(account), account).running()
        return None if running is None else running.pid

    async def kill(self) -> None:
        """Kill the postmaster; its processes notice it one by one."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)
        await until(lambda: self.pid is None)

    async def remove(self) -> None:
        await self._embedded.stop()
        self.wal.unmount()
        self.heap.unmount()


@contextmanager
def breakable_server() -> Iterator[BreakableServer]:
    """Make one, and remove it whatever happened to it."""
    folder = Path(tempfile.mkdtemp(prefix="pm-faults-"))
    server = BreakableServer(folder)
    try:
        asyncio.run(server.make())
        yield server
    finally:
        asyncio.run(server.remove())
        shutil.rmtree(folder, ignore_errors=True)
