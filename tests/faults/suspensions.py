"""Cancelling a call at a point of one's choice: where it waits for the n-th time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

#: The task is cancelled as it begins to wait; or when what it waits for has come, before it goes on.
Moment = Literal["waiting", "answered"]


class Suspensions(Generator[Any, Any, Any]):
    """Awaits ``call`` and cancels its task at those of its suspensions that are ``chosen``; counts all of them."""

    def __init__(self, call: Awaitable[Any], chosen: Callable[[int], bool], moment: Moment) -> None:
        self._steps: Any = call.__await__()
        self._chosen = chosen
        self._moment = moment
        self.number = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: Any) -> Any:
        return self._suspended(self._steps.send(value))

    def throw(self, *error: Any) -> Any:
        return self._suspended(self._steps.throw(*error))

    def _suspended(self, awaited: asyncio.Future[Any] | None) -> asyncio.Future[Any] | None:
        self.number += 1
        if self._chosen(self.number):
            self._cancel(awaited)
        return awaited

    def _cancel(self, awaited: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        if awaited is None or self._moment == "waiting":
            task.cancel()
        else:
            # Called before the task's own callback, which is added only after this.
            awaited.add_done_callback(lambda _: task.cancel())


async def cancelled(call: Awaitable[Any], chosen: Callable[[int], bool], moment: Moment) -> bool:
    """Run ``call`` as a task, cancel it there, and say whether it came so far. It must then end as cancelled."""
    suspensions = Suspensions(call, chosen, moment)

    async def run() -> None:
        await suspensions

    task = asyncio.create_task(run(), name="the call")
    await asyncio.wait([task], timeout=20)
    assert task.done(), f"the call did not end: {asyncio.all_tasks()}"
    if any(map(chosen, range(1, suspensions.number + 1))):
        assert task.cancelled(), f"the cancellation was lost: {task}"
        return True
    task.result()
    return False
