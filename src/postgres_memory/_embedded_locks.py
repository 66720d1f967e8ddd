"""File locks that vouch for a process: the system releases them however it ends, so no list of processes is
kept.

Each lock is an ``flock`` on a file opened for it alone; several in one process therefore count as several.
Programs started meanwhile do not inherit them (Python opens files close-on-exec), and a forked child lets go
of them at once.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .errors import EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 240  # more than a first start takes on a very slow machine
_open_files: set[int] = set()


def hold(path: Path) -> int:
    """Take a shared lock on ``path`` (which nobody may hold exclusively) and return its handle."""
    import fcntl

    handle = _open(path)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def is_last(handle: int) -> bool:
    """Whether nobody else holds the file. The handle is good only for ``release`` afterwards."""
    return _try_exclusive(handle)


def release(handle: int) -> None:
    """Give back a handle of ``hold``."""
    _open_files.discard(handle)
    os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold ``path`` exclusively, waiting for others; EmbeddedServerError when they take minutes."""
    handle = _open(path)
    try:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        # Polled, since a blocking flock cannot be given a time limit.
        while not _try_exclusive(handle):
            if time.monotonic() > give_up:
                raise EmbeddedServerError(f"{path} is held by another process for {_PATIENCE_SECONDS} s")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        release(handle)


def _open(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    _open_files.add(handle)
    return handle


def _try_exclusive(handle: int) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go() -> None:
    # Closing drops the child's share only; unlocking would take the lock from the parent too.
    for handle in _open_files:
        os.close(handle)
    _open_files.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go)
