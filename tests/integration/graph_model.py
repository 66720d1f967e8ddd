"""Graphs for tests, and the walk over them in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory.graph_records import Related
from postgres_memory.records import MemoryRelationType

if TYPE_CHECKING:
    from postgres_memory._pooling import Connection

INVERSE = {"contradicts": "contradicts", "related": "related", "precedes": "follows", "follows": "precedes"}
NODES = "abcdefg"

Edge = tuple[str, str, str, str]  # source, target, type, label
Step = tuple[str, str, str, str, bool]  # source, target, type, label, read backwards


@dataclass(frozen=True)
class Graph:
    """A graph, and a question about it."""

    edges: dict[Edge, float]
    hidden: frozenset[str] = frozenset()
    types: frozenset[str] | None = None
    direction: str = "out"
    max_depth: int = 2
    min_confidence: float = 0.0
    limit: int = 50
    max_fan_out: int = 200
    max_visits: int = 10_000
    include_inactive: bool = False

    def steps(self, node: str) -> Iterator[tuple[float, str, str, str, bool, Step]]:
        """Give confidence, other end, stored type, label, whether against the arrow, and how it reads."""
        for (source, target, kind, label), confidence in self.edges.items():
            if node not in (source, target):
                continue
            readings = [(source, target, kind, label, False)]
            if kind in INVERSE:
                readings.append((target, source, INVERSE[kind], label, True))
            readings.sort(key=lambda reading: reading[0] != node)  # outgoing first
            for reading in readings:
                away = reading[0] == node
                wanted = self.types is None or reading[2] in self.types
                if wanted and self.direction in ("both", "out" if away else "in"):
                    other = target if node == source else source
                    yield confidence, other, kind, label, node == target, reading
                    break

    async def store(self, connection: Connection, namespace: str) -> None:
        """Write it without the package."""
        await connection.executemany(
            "INSERT INTO memory.memories (namespace, id, content, status) VALUES ($1, $2, $2, $3)",
            [(namespace, id_, "archived" if id_ in self.hidden else "active") for id_ in NODES],
        )
        await connection.executemany(
            """INSERT INTO memory.memory_relations
               (namespace, source_id, target_id, relation_type, label, confidence) VALUES ($1, $2, $3, $4, $5, $6)""",
            [(namespace, *edge, confidence) for edge, confidence in self.edges.items()],
        )

    async def ask(self, memory: PostgresMemory) -> Related:
        return await memory.related(
            "a",
            types=None if self.types is None else sorted(self.types),
            direction=cast(Any, self.direction),
            max_depth=self.max_depth,
            min_confidence=self.min_confidence,
            limit=self.limit,
            max_fan_out=self.max_fan_out,
            max_visits=self.max_visits,
            include_inactive=self.include_inactive,
        )


Way = tuple[float, tuple[str, ...], tuple[Step, ...]]


@dataclass
class Walk:
    """The same walk, step by step, as its documentation tells it."""

    graph: Graph
    visits: int = 0
    truncated: bool = False
    best: dict[str, Way] = field(default_factory=dict)

    def run(self) -> list[Way]:
        frontier: list[Way] = [(1.0, ("a",), ())]
        for _ in range(self.graph.max_depth):
            frontier = self.step(frontier)
            for way in frontier:
                known = self.best.get(way[1][-1])
                if known is None or way[0] > known[0]:
                    self.best[way[1][-1]] = way
        return sorted(self.best.values(), key=lambda way: (-way[0], len(way[1]), way[1][-1]))

    def step(self, frontier: list[Way]) -> list[Way]:
        level: dict[str, tuple[Any, Way]] = {}
        for walked, path, steps in sorted(frontier, key=lambda way: (-way[0], way[1])):
            least = self.graph.min_confidence / walked * 0.999999999999 if walked else 0.0
            onward = [step for step in self.graph.steps(path[-1]) if step[0] >= least]
            onward.sort(key=lambda step: (-step[0], step[1:5]))
            for place, (confidence, other, kind, label, against, reading) in enumerate(onward, 1):
                if place > self.graph.max_fan_out or self.visits >= self.graph.max_visits:
                    self.truncated = True
                    self.visits += 1
                    break
                self.visits += 1
                product = walked * confidence
                shown = self.graph.include_inactive or other not in self.graph.hidden
                if product >= self.graph.min_confidence and other not in path and shown:
                    rank = (-product, path, kind, label, against)
                    way = (product, (*path, other), (*steps, reading))
                    if other not in level or rank < level[other][0]:
                        level[other] = (rank, way)
        return [way for _, way in level.values()]


edges = st.tuples(
    st.sampled_from(NODES),
    st.sampled_from(NODES),
    st.sampled_from(sorted(MemoryRelationType)).map(str),
    st.sampled_from(["", "x"]),
).filter(lambda edge: edge[0] != edge[1])
coarse = st.sampled_from([1.0, 0.5, 0.25])
confidences = st.one_of(coarse, st.floats(0, 1).map(lambda number: round(number, 3)))


def graphs(*, weights: st.SearchStrategy[float], caps: bool) -> st.SearchStrategy[Graph]:
    few = st.integers(1, 4)
    return st.builds(
        Graph,
        edges=st.dictionaries(edges, weights, max_size=25),
        hidden=st.frozensets(st.sampled_from(NODES), max_size=2),
        types=st.none() | st.frozensets(st.sampled_from(sorted(MemoryRelationType)).map(str), max_size=4),
        direction=st.sampled_from(["out", "in", "both"]),
        max_depth=st.integers(1, 6),
        min_confidence=st.just(0.0) | weights,
        limit=st.integers(0, 8),
        max_fan_out=few if caps else st.just(200),
        max_visits=st.integers(1, 12) if caps else st.just(10_000),
        include_inactive=st.booleans(),
    )


def every_way(graph: Graph) -> Iterator[Way]:
    """Give every way without a cycle; confidences that are powers of two multiply exactly."""
    ways: list[Way] = [(1.0, ("a",), ())]
    while ways:
        walked, path, steps = ways.pop()
        for confidence, other, _, _, _, reading in graph.steps(path[-1]):
            way = (walked * confidence, (*path, other), (*steps, reading))
            shown = graph.include_inactive or other not in graph.hidden
            if other not in path and shown and way[0] >= graph.min_confidence:
                yield way
                if len(steps) + 1 < graph.max_depth:
                    ways.append(way)
