"""Numbers of things in words."""

from __future__ import annotations


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return how many of something: ``one`` of it, ``several`` (with an s unless said) of any other number."""
    return f"{number} {one}" if number == 1 else f"{number} {several or f'{one}s'}"
