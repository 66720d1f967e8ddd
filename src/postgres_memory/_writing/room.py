"""Room for calls that wait: so many, and so much text; who finds none waits for it in turn."""

from __future__ import annotations

import asyncio
from collections import deque

#: Calls, and characters of their texts, that may be inside at a time. One call is let in whatever it brings.
MOST_CALLS = 4_096
MOST_CHARACTERS = 16 << 20


class Room:
    """Calls are let in in the order in which they came."""

    def __init__(self) -> None:
        self._calls = 0
        self._characters = 0
        self._crowd: deque[tuple[asyncio.Future[None], int]] = deque()

    def __bool__(self) -> bool:
        """Say whether anybody is inside or before the door."""
        return bool(self._calls or self._crowd)

    async def enter(self, characters: int) -> None:
        """Wait until there is room for so much text."""
        if not self._crowd and self._fits(characters):
            self._take(characters)
            return
        waiting = asyncio.get_running_loop().create_future(), characters
        self._crowd.append(waiting)
        try:
            await waiting[0]
        except asyncio.CancelledError:
            if waiting in self._crowd:
                self._crowd.remove(waiting)
                self._let_in()  # who was behind it may bring less
            else:
                self.leave(characters)
            raise

    def leave(self, characters: int) -> None:
        """Make room."""
        self._calls -= 1
        self._characters -= characters
        self._let_in()

    def _let_in(self) -> None:
        while self._crowd and self._fits(self._crowd[0][1]):
            turn, characters = self._crowd.popleft()
            self._take(characters)
            if not turn.done():  # one that is cancelled leaves by itself
                turn.set_result(None)

    def _fits(self, characters: int) -> bool:
        if not self._calls:
            return True
        return self._calls < MOST_CALLS and self._characters + characters <= MOST_CHARACTERS

    def _take(self, characters: int) -> None:
        self._calls += 1
        self._characters += characters
