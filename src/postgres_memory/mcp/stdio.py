"""Serving one client over standard input and output, which carry the protocol and nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    import anyio
    from mcp.server import Server

_CHUNK = 65_536


async def serve_stdio(server: Server[Any]) -> None:
    """Serve the client at the other end of stdin and stdout until it closes its end."""
    lines = _Lines(_take_stdin(), asyncio.get_running_loop())
    # While it serves, the SDK has descriptor 1 lead to stderr: what is printed by mistake is no part of the protocol.
    try:
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (messages, answers):
            await server.run(messages, answers, server.create_initialization_options())
    except* (BrokenPipeError, ConnectionResetError):
        pass  # The client is gone without a word, which is found out when it is answered.


def _take_stdin() -> int:
    """Return a descriptor of what stdin is now, and leave nothing there for what this process starts to read."""
    taken = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return taken


class _Lines:
    """The lines of a descriptor, as text.

    They are read on a daemon thread: the SDK's own reader cannot be cancelled while it waits for a line, so that a
    process told to end would wait for its client. Descriptors of every kind can be read so, files and terminals too.
    """

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._arrived.get()) is not None:
            yield line.decode("utf-8", errors="replace")

    def _read(self) -> None:
        """Hand over a line at a time, and wait until it is taken."""
        # The loop may be closed by the time a line arrives.
        with suppress(RuntimeError):
            pending = bytearray()
            while chunk := os.read(self._descriptor, _CHUNK):
                pending += chunk
                *lines, rest = bytes(pending).split(b"\n") if b"\n" in chunk else [pending]
                pending = bytearray(rest)
                for line in lines:
                    self._hand_over(bytes(line))
            if pending:
                self._hand_over(bytes(pending))
            self._hand_over(None)

    def _hand_over(self, line: bytes | None) -> None:
        asyncio.run_coroutine_threadsafe(self._arrived.put(line), self._loop).result()
