"""The memory for code without an event loop: the same verbs, which wait for their answer.

The verbs are those of the asynchronous classes, run on one event loop in a background thread; what a type checker
sees is in `sync.pyi`, which scripts/make_sync_stub.py writes.
"""

from __future__ import annotations

from ._delegation import Synchronous, SynchronousOwner
from .postgres import MemoryTransaction, MemoryWithin, PostgresMemory, PrincipalMemory
from .session import PostgresSession

__all__ = [
    "SyncMemoryTransaction",
    "SyncMemoryWithin",
    "SyncPostgresMemory",
    "SyncPostgresSession",
    "SyncPrincipalMemory",
    "synchronous",
]


class SyncMemoryWithin(Synchronous, of=MemoryWithin):
    """What `SyncPostgresMemory.within` gives."""


class SyncMemoryTransaction(Synchronous, of=MemoryTransaction):
    """The verbs inside one transaction; what `SyncPostgresMemory.transaction` gives."""


class SyncPrincipalMemory(Synchronous, of=PrincipalMemory):
    """The memory as a principal sees it; what `SyncPostgresMemory.as_principal` gives."""


class SyncPostgresMemory(SynchronousOwner, of=PostgresMemory):
    """`PostgresMemory` for code without an event loop; made with the same arguments, or as ``memory.sync``.

    Every verb of `PostgresMemory` is here and waits for its answer. Any number of threads may use one object at once.
    The work is done on one event loop in a background thread, which all such objects of the process share and which
    ends with the last of them. ``with`` and `close` close the object; what was forgotten is closed at the
    interpreter's exit.

    Iterables and ``progress`` callbacks are read and called in the calling thread. A KeyboardInterrupt, or whatever
    else interrupts the wait, cancels the call, waits for its end (at most ten seconds) and is raised.

    ``dsn`` cannot be a pool and the verbs have no ``connection``, since both belong to an event loop of the caller;
    `transaction` takes their place. Used where an event loop runs, which the wait would block, or in a process that
    was forked after the first call, every verb raises UsageError.
    """


class SyncPostgresSession(SynchronousOwner, of=PostgresSession):
    """`PostgresSession` for code without an event loop; made with the same arguments. See `SyncPostgresMemory`."""


def synchronous(memory: PostgresMemory) -> SyncPostgresMemory:
    """Return the synchronous form of ``memory``, which is then used in this form only; closing it closes ``memory``."""
    return SyncPostgresMemory._of_existing(memory)
