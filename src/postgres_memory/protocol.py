"""The seed contracts: ``Memory``, ``MemoryEntry`` and ``Session``.

Where flux-agents is installed, ``Memory`` and ``MemoryEntry`` *are* its classes, so that ``isinstance``,
``==`` and a type checker agree; elsewhere they are identical ones of ours. Which it is, is decided when a
name is first used: importing this module does not import flux (that takes about 0.2 s). Modules of the
package therefore import the two names for type checking only, and make entries with ``entry_class()``.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from postgres_memory._seed_types import Memory, MemoryEntry

__all__ = ["Memory", "MemoryEntry", "Session", "entry_class", "memory_class"]


@runtime_checkable
class Session(Protocol):
    """The messages of one conversation, in order; structurally the ``Session`` of flux-agents."""

    @property
    def session_id(self) -> str:
        """What names this conversation."""
        ...

    async def get_messages(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the last ``limit`` messages in order; all of them when ``limit`` is None."""
        ...

    async def add_messages(self, messages: list[dict[str, Any]]) -> None:
        """Append messages."""
        ...

    async def clear(self) -> None:
        """Remove all messages of this conversation."""
        ...


@cache
def entry_class() -> type[MemoryEntry]:
    """Return the ``MemoryEntry`` in use: flux's where flux-agents is installed, else ours."""
    return _classes()[1]


@cache
def memory_class() -> type[Any]:
    """Return the ``Memory`` protocol in use: flux's where flux-agents is installed, else ours."""
    return _classes()[0]


@cache
def _classes() -> tuple[type[Any], type[Any]]:
    if _looks_like_flux_agents():
        try:
            found: Any = importlib.import_module("flux.memory.base")
        except ImportError:
            found = None
        if _is_seed_memory(getattr(found, "Memory", None)) and _is_seed_entry(
            getattr(found, "MemoryEntry", None)
        ):
            return found.Memory, found.MemoryEntry
    from postgres_memory._seed import Memory as OwnMemory
    from postgres_memory._seed import MemoryEntry as OwnEntry

    return OwnMemory, OwnEntry


def _looks_like_flux_agents() -> bool:
    # "flux" is also the name of other packages; importing one of them just to look would run its code.
    try:
        spec = importlib.util.find_spec("flux")
    except ValueError:  # something in sys.modules that was never imported from anywhere
        return False
    for name in ("flux.memory", "flux.memory.base"):
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec is not None


def _is_seed_entry(entry: Any) -> bool:
    return (
        isinstance(entry, type)
        and dataclasses.is_dataclass(entry)
        and [field.name for field in dataclasses.fields(entry)] == ["content", "metadata", "score"]
    )


def _is_seed_memory(memory: Any) -> bool:
    return getattr(memory, "_is_runtime_protocol", False) and all(
        callable(getattr(memory, method, None)) for method in ("search", "store", "clear")
    )


if not TYPE_CHECKING:  # a checker that saw this would accept any name

    def __getattr__(name: str) -> type[Any]:
        if name == "Memory":
            return memory_class()
        if name == "MemoryEntry":
            return entry_class()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
