"""A primary and a standby of the embedded wheel's own programs, each on a TCP port of 127.0.0.1."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from postgres_memory._embedded_account import Account, reachable_binaries, run, server_account


@dataclass(slots=True)
class Node:
    """One server, in a folder of its own."""

    folder: Path
    programs: Path
    account: Account | None
    port: int

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def _run(self, program: str, *arguments: str) -> CompletedProcess[str]:
        done = run([str(self.programs / program), *arguments], cwd=self.folder, account=self.account)
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(
                f"{program}: {done.stderr or done.stdout}{log.read_text() if log.exists() else ''}"
            )
        return done

    def make(self, **settings: str) -> None:
        self._run(
            "initdb", "-D", "data", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"
        )
        self.configure(**settings)

    def configure(self, **settings: str) -> None:
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                file.write(f"{name} = '{value}'\n")

    def follow(self, primary: Node, name: str) -> None:
        """Become a standby of ``primary`` under ``name``."""
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}"
        self._run(
            "pg_basebackup", "-D", "data", "-d", source, "-R", "-X", "stream", "-C", "-S", name, "-c", "fast"
        )

    def start(self) -> None:
        options = (
            f"-c port={self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        )
        self._run("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-w", "-D", "data")

    def kill(self) -> None:
        """kill -9 of the postmaster; its children end by themselves."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])

    def stop(self) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            run(
                [str(self.programs / "pg_ctl"), "stop", "-w", "-m", "immediate", "-D", "data"],
                cwd=self.folder,
                account=self.account,
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def nodes(number: int) -> AsyncIterator[list[Node]]:
    """Give folders for ``number`` servers, none of which is made yet; stop and remove them at the end."""
    account = server_account()
    programs = await asyncio.to_thread(reachable_binaries, account)
    given = []
    try:
        for _ in range(number):
            folder = Path(tempfile.mkdtemp(prefix="pm-node-", dir="/tmp"))
            if account is not None:
                os.chown(folder, account.uid, account.gid)
            given.append(Node(folder, programs, account, _free_port()))
        yield given
    finally:
        for node in given:
            await asyncio.to_thread(node.stop)
            shutil.rmtree(node.folder, ignore_errors=True)


@asynccontextmanager
async def pair(*, synchronous: bool, delay: str = "0") -> AsyncIterator[tuple[Node, Node]]:
    """Give a running primary and its standby, which replays everything ``delay`` later."""
    async with nodes(2) as (primary, standby):
        name = "second"
        await asyncio.to_thread(primary.make, max_connections="60", wal_level="replica")
        await asyncio.to_thread(primary.start)
        await asyncio.to_thread(standby.follow, primary, name)
        await asyncio.to_thread(standby.configure, recovery_min_apply_delay=delay)
        await asyncio.to_thread(standby.start)
        if synchronous:
            await _run(primary.dsn, f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            await _run(primary.dsn, "SELECT pg_reload_conf()")
        yield primary, standby


async def _run(dsn: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def take_over(standby: Node) -> float:
    """Promote the standby; return when that began. It waits for no standby of its own, or its commits would hang."""
    await _run(standby.dsn, "ALTER SYSTEM SET synchronous_standby_names = ''")
    await _run(standby.dsn, "SELECT pg_reload_conf()")
    began = time.monotonic()
    await asyncio.to_thread(standby.promote)
    return began
