"""Telling the caller how far a verb is."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable


async def tell(progress: Callable[..., object] | None, *numbers: int | None) -> None:
    """Call ``progress``, if there is one, and await what it returns, if that can be awaited."""
    if progress is not None:
        told = progress(*numbers)
        if isawaitable(told):
            await told
