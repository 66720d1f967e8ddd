"""related: the walk in SQL against a plain one in Python, its caps, and the drawing on the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import asyncpg
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from postgres_memory import PostgresMemory
from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.traversal import get_related
from postgres_memory.cli.graph import graph as graph_command
from postgres_memory.errors import InvalidTypeError, InvalidValueError, NotFoundError
from postgres_memory.graph_records import Related
from postgres_memory.records import MemoryRelationType, MemoryType
from tests.conftest import Database

from .graph_model import Graph, Walk, Way, coarse, confidences, every_way, graphs

if TYPE_CHECKING:
    from postgres_memory._pooling import Pool

SUPPORTS, CONTRADICTS, EXTENDS, PRECEDES, FOLLOWS, RELATED = MemoryRelationType


def shown(related: Related) -> list[Way]:
    return [
        (
            item.confidence,
            item.path,
            tuple((s.source_id, s.target_id, s.relation_type.value, s.label, s.reversed) for s in item.steps),
        )
        for item in related.items
    ]


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=2) as opened:
        yield opened


async def answer(pool: Pool, graph: Graph) -> Related:
    """Store the graph in a namespace of its own and ask."""
    namespace = next(namespaces)
    async with pool.acquire() as connection:
        await graph.store(connection, namespace)
    return await graph.ask(PostgresMemory(pool, namespace=namespace))


namespaces = (f"graph {number}" for number in count())
shared = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(shared, max_examples=120)
@given(graph=st.booleans().flatmap(lambda caps: graphs(weights=confidences, caps=caps)))
async def test_the_walk_is_the_documented_one(pool: Pool, graph: Graph) -> None:
    related = await answer(pool, graph)
    walk = Walk(graph)
    expected = walk.run()
    assert shown(related) == expected[: graph.limit]
    assert related.truncated == walk.truncated
    assert related.has_more == (len(expected) > graph.limit)
    for item in related.items:
        assert item.record.id == item.path[-1]
        assert item.depth == len(item.steps) == len(item.path) - 1
        assert [s.confidence for s in item.steps] == [
            graph.edges[s.source_id, s.target_id, s.relation_type.value, s.label]
            for s in (s.stored for s in item.steps)
        ]


@settings(shared, max_examples=60)
@given(graph=graphs(weights=coarse, caps=False))
async def test_the_best_way_is_the_best_of_all_ways(pool: Pool, graph: Graph) -> None:
    best: dict[str, Any] = {}
    for way in every_way(graph):
        rank = (-way[0], len(way[1]), way[1])
        best[way[1][-1]] = min(rank, best.get(way[1][-1], rank))
    expected = [(-product, path) for product, _, path in sorted(best.values(), key=_in_order)]
    related = await answer(pool, graph)
    assert [(item.confidence, item.path) for item in related.items] == expected[: graph.limit]
    assert not related.truncated


def _in_order(rank: tuple[float, int, tuple[str, ...]]) -> tuple[float, int, str]:
    return rank[0], rank[1], rank[2][-1]


async def test_caps_follow_the_first_by_id_where_confidence_does_not_decide(pool: Pool) -> None:
    edges = [("a", "c"), ("a", "b"), ("a", "d"), ("b", "e"), ("c", "f"), ("d", "g")]
    equal = Graph({(source, target, "supports", ""): 1.0 for source, target in edges})
    reached = [
        "".join(item.path[-1] for item in (await answer(pool, graph)).items)
        for graph in (
            replace(equal, max_visits=2),
            replace(equal, max_visits=4),
            replace(equal, max_visits=5),
            replace(equal, max_fan_out=2),
            replace(equal, max_visits=6),
        )
    ]
    assert reached == ["bc", "bcde", "bcdef", "bcef", "bcdefg"]


async def test_a_synthetic_memory_leads_to_what_it_was_made_from(memory: PostgresMemory) -> None:
    first = await memory.add("The user drinks tea.")
    second = await memory.add("The user dislikes coffee.")
    middle = await memory.add("Tea, not coffee.", derived_from=[first.id, second.id], memory_type="synthetic")
    top = await memory.add("Hot drinks.", derived_from=[middle.id], memory_type=MemoryType.SYNTHETIC)
    related = await memory.related(top.id, types=[EXTENDS])
    assert [(item.record.content, item.depth) for item in related.items] == [
        ("Tea, not coffee.", 1),
        ("The user drinks tea.", 2),
        ("The user dislikes coffee.", 2),
    ]
    assert [step.label for step in related.items[2].steps] == ["derived", "derived"]
    upwards = await memory.related(first.id, direction="in")
    assert [item.record.id for item in upwards.items] == [middle.id, top.id]


async def test_steps_carry_metadata_and_records_all_but_their_relations(memory: PostgresMemory) -> None:
    for id_ in "abc":
        await memory.add(f"memory {id_}", id=id_, tags=[id_], metadata={"n": 1.0})
    await memory.relate("a", "b", PRECEDES, confidence=0.5, metadata={"why": ["x"]})
    await memory.relate("b", "c", SUPPORTS)
    (item, _) = (await memory.related("a")).items
    assert item.steps[0].metadata == {"why": ["x"]}
    record = await memory.get("b")
    assert record.relations
    assert item.record.relations == ()
    assert (item.record.content, item.record.tags, item.record.metadata) == ("memory b", ("b",), {"n": 1.0})
    assert item.record.embedding == record.embedding


async def test_memories_that_are_not_seen_are_not_walked_over(memory: PostgresMemory) -> None:
    await memory.add("a", id="a")
    await memory.add("b", id="b", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await memory.add("c", id="c")
    await memory.relate("a", "b", SUPPORTS)
    await memory.relate("b", "c", SUPPORTS)
    assert (await memory.related("a")).items == ()
    everything = await memory.related("a", include_inactive=True)
    assert [item.path for item in everything.items] == [("a", "b"), ("a", "b", "c")]
    assert [item.path for item in (await memory.related("b")).items] == [("b", "c")]


async def test_tiny_confidences_do_not_overflow_the_other_way(memory: PostgresMemory) -> None:
    for id_ in "abcd":
        await memory.add(id_, id=id_)
    await memory.relate("a", "b", SUPPORTS, confidence=1e-200)
    await memory.relate("b", "c", SUPPORTS, confidence=1e-200)
    await memory.relate("c", "d", SUPPORTS, confidence=5e-324)
    found = await memory.related("a", max_depth=3)
    assert [(item.record.id, item.confidence) for item in found.items] == [
        ("b", 1e-200),
        ("c", 0.0),
        ("d", 0.0),
    ]
    assert [item.record.id for item in (await memory.related("a", min_confidence=1e-200)).items] == ["b"]


async def test_a_hub_is_cut_and_says_so(memory: PostgresMemory, database: Database) -> None:
    await memory.add("hub", id="hub")
    connection = await asyncpg.connect(database.direct_dsn)
    await connection.execute(
        """INSERT INTO memory.memories (namespace, id, content)
           SELECT 'default', 'm' || n, 'leaf' FROM generate_series(1, 20000) n"""
    )
    await connection.execute(
        """INSERT INTO memory.memory_relations (namespace, source_id, target_id, relation_type, confidence)
           SELECT 'default', 'hub', 'm' || n, 'supports', 1.0 / n FROM generate_series(1, 20000) n"""
    )
    await connection.execute("ANALYZE")
    related = await memory.related("hub", limit=5)
    assert [item.record.id for item in related.items] == ["m1", "m2", "m3", "m4", "m5"]
    assert related.truncated
    assert related.has_more
    assert not (await memory.related("hub", min_confidence=0.25)).truncated
    assert await rows_read(connection) < 2_000
    await connection.close()


async def rows_read(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return the largest number of rows that a node of the walk's generic plan gave on the hub."""
    statement = Catalog("memory", "public").statement(get_related, "active")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    kinds = [kind.value for kind in MemoryRelationType]
    values = {
        "namespace": "default",
        "id": "hub",
        "source_types": kinds,
        "target_types": kinds,
        "max_depth": 3,
        "max_fan_out": 200,
        "max_visits": 10_000,
        "min_confidence": 0.0,
        "limit": 50,
    }
    query = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}"
    text = await connection.fetchval(query, *(values[name] for name in statement.parameters))
    (plan,) = json.loads(text)
    return max(int(node["Actual Rows"] * node["Actual Loops"]) for node in nodes(plan["Plan"]))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@pytest.mark.parametrize(
    ("arguments", "named", "kind"),
    [
        ({"max_depth": 0}, "max_depth", InvalidValueError),
        ({"max_depth": 33}, "max_depth", InvalidValueError),
        ({"max_depth": 1.5}, "max_depth", InvalidTypeError),
        ({"max_fan_out": 0}, "max_fan_out", InvalidValueError),
        ({"max_visits": 0}, "max_visits", InvalidValueError),
        ({"limit": -1}, "limit", InvalidValueError),
        ({"min_confidence": 2}, "min_confidence", InvalidValueError),
        ({"types": "supports"}, "types", InvalidTypeError),
        ({"direction": "up"}, "direction", InvalidValueError),
        ({"id": ""}, "id", InvalidValueError),
    ],
)
async def test_bad_arguments_are_refused_by_name(
    memory: PostgresMemory, arguments: dict[str, Any], named: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as raised:
        await memory.related(**({"id": "a"} | arguments))
    assert cast(Any, raised.value).argument == named


async def test_an_unknown_memory_is_an_error_and_a_lonely_one_is_not(memory: PostgresMemory) -> None:
    with pytest.raises(NotFoundError):
        await memory.related("x")
    await memory.add("a", id="a")
    assert await memory.related("a") == Related((), truncated=False, has_more=False)


async def store_two(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.add("tea", id="a")
        await memory.add("coffee", id="b")
        await memory.relate("b", "a", CONTRADICTS, confidence=0.5)
        await memory.relate("b", "a", SUPPORTS)


def test_the_command_draws_in_every_format(database: Database) -> None:
    app = typer.Typer()
    app.command("graph")(graph_command)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["a", "--dsn", database.dsn, *arguments])

    assert run().exit_code == 1
    asyncio.run(store_two(database))
    text = run("--type", "contradicts")
    assert (text.exit_code, text.stdout) == (0, "a: tea\n└─ — contradicts 0.50 — b: coffee\n")
    assert run("--direction", "out").stdout == text.stdout
    assert "n0 ---" in run("--format", "mermaid", "--type", "contradicts").stdout
    assert run("--format", "dot").stdout.startswith("digraph")
    drawn = json.loads(run("--format", "json").stdout)
    assert [item["id"] for item in drawn["memories"]] == ["b"]
    assert run("--format", "png").exit_code == 2
    assert run("--depth", "33").exit_code == 2
