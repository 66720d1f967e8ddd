"""What a contestant is: one class in one file of this folder, named in `contestants.CONTESTANTS`.

It runs in a process of its own, in its own environment, and does the work it is told (suite/worker.py). What it cannot
do it leaves out, and the table says so. Verbs are methods, all coroutines; where ``threaded``, plain functions:

    store(content, metadata)
    bulk(items)                          pairs of content and metadata, in as many calls as its users would make
    search(query, limit)                 the nearest by the hash embedding, exactly -> the ``i`` of their metadata
    near(query, limit)                   the same by an HNSW index
    filtered(query, limit, topic)        only those of a topic
    get(id)  find(limit)  relate(source, target, label)  related(id)  recall(query)  words(query)
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ClassVar

Item = tuple[str, dict[str, Any]]

#: What a contestant may be able to do.
VERBS = (
    "store",
    "bulk",
    "search",
    "near",
    "filtered",
    "filtered_near",
    "get",
    "find",
    "relate",
    "related",
    "recall",
    "words",
)
#: How many connections a contestant has that chooses itself.
CONNECTIONS = 16


class Contestant:
    """The parts that most share."""

    name = ""
    #: What a reader of the table should know.
    note = ""
    #: The distributions whose versions are told.
    distributions: ClassVar[tuple[str, ...]] = ()
    #: Its verbs are plain functions: called as they are for one client, in threads for several.
    threaded = False
    #: It holds memories in its process: no database is made for it.
    in_process = False
    #: Stores items as fast as it can; here no value, since not all can.
    bulk: Any

    def versions(self) -> str:
        return ", ".join(f"{name} {version(name)}" for name in self.distributions)

    def verbs(self) -> list[str]:
        return [verb for verb in VERBS if hasattr(self, verb)]

    async def open(self, dsn: str) -> None:
        """Connect. What a user does once."""

    async def enter(self, place: str, *, near: bool = False) -> None:
        """Go to a place (a namespace, a table) that is made if it is not there; ``near`` if it is to have an index."""

    async def ready(self, verb: str, inputs: Sequence[tuple[Any, ...]]) -> None:
        """Make ready for the calls that follow, unmeasured."""

    async def fill(self, items: Sequence[Item]) -> None:
        """Store items, unmeasured."""
        loading = self.bulk(items)
        if not self.threaded:
            await loading

    async def index(self) -> None:
        """Build the HNSW index, as its users do."""

    async def close(self) -> None:
        """Let go of everything."""
