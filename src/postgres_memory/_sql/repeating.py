"""Which writes may run again where nobody knows whether they ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

BuilderT = TypeVar("BuilderT", bound=Callable[..., Any])

_builders: set[object] = set()


def repeatable(builder: BuilderT) -> BuilderT:
    """Say of a builder that its statement, run twice, leaves what it leaves run once, and answers well enough."""
    _builders.add(builder)
    return builder


def is_repeatable(builder: object) -> bool:
    """Say whether that was said of ``builder``."""
    return builder in _builders
