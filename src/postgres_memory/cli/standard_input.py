"""Standard input as a stream that another thread reads and that can be left while nothing comes."""

from __future__ import annotations

import os
from io import RawIOBase
from select import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Seconds until a thread that waits for input sees that nobody waits for it any more.
_PATIENCE = 0.2
_PIECE = 1 << 16


class StandardInput(RawIOBase):
    """What a descriptor gives. A thread blocked in reading it outlives Ctrl-C, and Python waits for its threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = b""
        self._stopped = False

    def readable(self) -> bool:
        """Say that this can be read."""
        return True

    def begin(self, size: int) -> bytes:
        """Return the first ``size`` bytes, which are read again; fewer where a line or the input ends before."""
        while len(self._held) < size and b"\n" not in self._held:
            piece = os.read(self._descriptor, _PIECE)
            if not piece:
                break
            self._held += piece
        return self._held[:size]

    def stop(self) -> None:
        """Let whoever reads find the end of the input."""
        self._stopped = True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` with what there is, and return how much that was, 0 at the end."""
        view = memoryview(buffer)
        data = self._held[: len(view)] or self._wait(len(view))
        self._held = self._held[len(data) :]
        view[: len(data)] = data
        return len(data)

    def _wait(self, size: int) -> bytes:
        while not self._stopped:
            if select([self._descriptor], [], [], _PATIENCE)[0]:
                return os.read(self._descriptor, size)
        return b""
