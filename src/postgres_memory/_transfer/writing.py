"""Where an export goes: a file that appears only when it is whole, or a stream of the caller's."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from .._validation import kind_of
from .._waiting import finished
from ..errors import InvalidTypeError
from ..ids import new_id
from .reading import Stream

T = TypeVar("T")

Write = Callable[[bytes], object]


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run ``function`` beside the event loop. If cancelled, wait for it, so that no file is closed under it."""
    task = asyncio.create_task(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await finished([task])
        raise


@asynccontextmanager
async def opened_target(target: str | os.PathLike[str] | Stream) -> AsyncIterator[Write]:
    """Give what writes bytes to ``target``. A path gets its file when the body ends, and nothing if it fails."""
    if not isinstance(target, str | os.PathLike):
        yield _stream_writer(target)
        return
    file = await in_thread(_open, os.fspath(target))
    try:
        yield file.write
        await in_thread(file.finish)
    except BaseException:
        await in_thread(file.abandon)
        raise


def _stream_writer(stream: Stream) -> Write:
    write: Any = getattr(stream, "write", None)
    if not callable(write):
        raise InvalidTypeError("target", f"must be a path or a file open to write, not {kind_of(stream)}")
    if hasattr(stream, "encoding"):
        return lambda data: write(data.decode())

    def write_all(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # An unbuffered file may take a part, and says how much; others take all of it.
            written = write(rest)
            rest = rest[written if isinstance(written, int) else len(rest) :]

    return write_all


class _Direct:
    """A pipe or a device at a path: there is no later moment at which it could appear."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self.write: Write = self._file.write

    def finish(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        with suppress(OSError):
            self._file.close()


class _Partial(_Direct):
    """A sibling of the path with a name of its own, renamed when it is whole and on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name[:100]}.{new_id()}.partial")
        super().__init__(self._partial)
        with suppress(FileNotFoundError):
            # Who may read the file that it replaces may read it, and nobody else.
            self._partial.chmod(stat.S_IMODE(path.stat().st_mode))

    def finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)

    def abandon(self) -> None:
        super().abandon()
        self._partial.unlink(missing_ok=True)


def _open(target: str) -> _Direct:
    path = Path(target).resolve()
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        regular = True
    return _Partial(path) if regular else _Direct(path)
