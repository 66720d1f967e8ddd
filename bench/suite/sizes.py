"""How much work each kind of run does."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is done how often, and on how much."""

    #: Rounds, in each of which every contestant has its turn.
    rounds: int
    #: Calls of a turn: cheap ones by one client, stores by several, and those that read 100,000 rows.
    calls: int
    stores: int
    slow_calls: int
    #: Memories of a bulk load, and of the one whose peak of client memory is looked at.
    bulk: int
    bulk_resident: int
    #: So many memories are searched exactly; by an index, filtered and recalled by words and vectors.
    exact: tuple[int, ...]
    near: tuple[int, ...]
    #: The largest that peers have to fill.
    peers_up_to: int
    #: Namespaces, and memories in each.
    namespaces: int
    in_namespace: int
    #: Memories and relations among them.
    memories: int
    edges: int
    #: Memories that a principal reads a tenth of.
    shared: int
    #: Calls of many verbs after which memory must not have grown.
    mixed: int
    #: Growth is looked at at these numbers of memories.
    growth: tuple[int, ...]
    starts: int = 7
    #: Questions whose answers are compared with the true ones.
    questions: int = 50


DEFAULT = Sizes(
    rounds=5,
    calls=200,
    stores=1_600,
    slow_calls=20,
    bulk=20_000,
    bulk_resident=200_000,
    exact=(10_000, 100_000),
    near=(20_000, 100_000),
    peers_up_to=20_000,
    namespaces=200,
    in_namespace=1_000,
    memories=20_000,
    edges=200_000,
    shared=10_000,
    mixed=40_000,
    growth=(1_000, 10_000, 100_000),
)
QUICK = replace(
    DEFAULT,
    rounds=3,
    calls=60,
    stores=480,
    slow_calls=10,
    bulk=5_000,
    bulk_resident=50_000,
    exact=(10_000,),
    near=(20_000,),
    peers_up_to=0,
    namespaces=20,
    memories=2_000,
    edges=20_000,
    shared=2_000,
    mixed=4_000,
    growth=(1_000, 10_000),
    starts=5,
    questions=30,
)
FULL = replace(
    DEFAULT,
    bulk=100_000,
    bulk_resident=1_000_000,
    near=(100_000, 1_000_000),
    peers_up_to=100_000,
    namespaces=1_000,
    memories=100_000,
    edges=1_000_000,
    mixed=200_000,
    growth=(1_000, 10_000, 100_000, 1_000_000),
    starts=15,
)
#: For the test of the suite itself: it says nothing of speed.
TINY = replace(
    DEFAULT,
    rounds=1,
    calls=5,
    stores=16,
    slow_calls=3,
    bulk=50,
    bulk_resident=100,
    exact=(200,),
    near=(200,),
    namespaces=2,
    in_namespace=50,
    memories=50,
    edges=100,
    shared=50,
    mixed=40,
    growth=(100, 200),
    starts=1,
    questions=5,
)
