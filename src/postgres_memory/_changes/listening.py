"""Being woken when there is something new in a feed, on a connection of one's own, where one can be had.

What is heard is a wake-up and nothing else: it may be missed, come twice, or for nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from .._driver_errors import translated
from .._sql.feed import CHANNEL, payload
from ..errors import ConfigurationError, DatabaseError

if TYPE_CHECKING:
    from .._context import Context
    from .._pooling import Connection


class Ear:
    """Hears of what is new in the feed of a context, from when `connection` was called."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._heard = asyncio.Event()
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None
        self._is_deaf = False
        #: Whether the object the context belongs to was closed.
        self.is_over = False

    async def __aenter__(self) -> Self:
        self._context.database.on_closing.add(self._end)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._context.database.on_closing.discard(self._end)
        await self.let_go()

    def _end(self) -> None:
        """Have whoever waits wait no more."""
        self.is_over = True
        if self._connection is not None:
            self._connection.terminate()
        self._heard.set()

    async def connection(self) -> Connection | None:
        """Return the connection that listens, a new one if it was lost; None where there can be none."""
        if self._connection is not None and self._connection.is_closed():
            await self.let_go()
        if self._connection is None and not self._is_deaf:
            await self._listen()
        return self._connection

    async def _listen(self) -> None:
        database = self._context.database
        try:
            connection = await self._stack.enter_async_context(database.apart(for_good=True))
        except ConfigurationError:
            self._is_deaf = True  # behind a pooler, or on a borrowed pool
            return
        schema = (await database.opened()).tables.schema
        wanted = payload(schema, self._context.namespace)

        def hear(_connection: Any, _process: int, _channel: str, said: object) -> None:
            if said == wanted:
                self._heard.set()

        with translated():
            await connection.add_listener(CHANNEL, hear)
        connection.add_termination_listener(lambda _: self._heard.set())
        self._connection = connection
        self._heard.set()  # what was said until now was not heard

    async def let_go(self, *, abruptly: bool = False) -> None:
        """Close the connection, if there is one; the next call for it makes another."""
        if abruptly and self._connection is not None:
            self._connection.terminate()  # a server that is gone would be waited for
        self._connection, stack, self._stack = None, self._stack, AsyncExitStack()
        with suppress(DatabaseError):
            await stack.aclose()

    def forget(self) -> None:
        """Listen for what is said from now on."""
        self._heard.clear()

    async def wait(self, seconds: float) -> None:
        """Wait until something is heard, at most for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
