"""``Memory`` and ``MemoryEntry`` as type checkers see them. Never imported at run time.

A star import is the one form that binds nothing where the module is missing: mypy and pyright then take the
names from the ``except`` branch. Spelt out, both names would be ``Any`` (mypy) or unknown (pyright) there.
"""

from __future__ import annotations

try:
    from flux.memory.base import *  # noqa: F403
except ImportError:
    from postgres_memory._seed import Memory, MemoryEntry

__all__ = ["Memory", "MemoryEntry"]
