"""How often each verb asks the server, once its statements are prepared: what a call costs over a network."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.postgres import Verbs
from tests.conftest import Database

from .proxy import Proxy, proxied

Call = Callable[[Verbs, int], Awaitable[object]]


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


#: A call of each verb with a number of its own, and how many round trips it is. A transaction adds its two ends.
CALLS: dict[str, tuple[Call, int]] = {
    "store": (lambda memory, n: memory.store(f"tea {n}", {"n": n}), 1),
    "search": (lambda memory, n: memory.search(f"tea {n}"), 1),
    "recall": (lambda memory, n: memory.recall(f"tea {n}"), 1),
    "add": (lambda memory, n: memory.add(f"tea {n}", tags=["x"]), 1),
    "get": (lambda memory, n: memory.get(f"get {n}"), 1),
    "get_many": (lambda memory, n: memory.get_many([f"get {n}", "no such"]), 1),
    "find": (lambda memory, n: memory.find(limit=n + 2), 1),
    "count": (lambda memory, n: memory.count({"importance": n / 10}), 1),
    "update": (lambda memory, n: memory.update(f"update {n}", importance=n / 10), 1),
    "delete": (lambda memory, n: memory.delete(f"delete {n}"), 1),
    "delete_many": (lambda memory, n: memory.delete_many({"importance": n / 10}), 1),
    "relate": (lambda memory, n: memory.relate(f"relate {n}", "get 0", "supports"), 1),
    "unrelate": (lambda memory, n: memory.unrelate(f"relate {n}", "get 0", "supports"), 1),
    "relations": (lambda memory, n: memory.relations(f"relate {n}"), 1),
    "related": (lambda memory, n: memory.related(f"relate {n}", max_depth=3), 1),
    "contradictions": (lambda memory, n: memory.contradictions(limit=n + 1), 1),
    "supersede": (lambda memory, n: memory.supersede(f"supersede {n}", f"newer {n}"), 1),
    "history": (lambda memory, n: memory.history(f"supersede {n}"), 1),
    "archive": (lambda memory, n: memory.archive(f"archive {n}"), 1),
    "restore": (lambda memory, n: memory.restore(f"archive {n}"), 1),
    # Memories, idempotency keys, and the tokens of writes.
    "purge_expired": (lambda memory, n: memory.purge_expired(), 3),
    "namespaces": (lambda memory, n: memory.namespaces(), 1),
    "spaces": (lambda memory, n: memory.spaces(), 1),
    # The numbers of the memories between the two ends, and a COPY for each of two tables: for a whole batch.
    "add_many": (lambda memory, n: memory.add_many([f"tea {n}", f"milk {n}"]), 5),
    "clear": (lambda memory, n: memory.clear(), 1),
    "disable_changes": (lambda memory, n: memory.disable_changes(), 3),
}
#: These do as much as there is to do, in batches; `health`, `doctor` and `stats` ask one thing after the other.
LONG = {
    "create_index",
    "create_metadata_index",
    "doctor",
    "drop_index",
    "drop_metadata_index",
    "drop_space",
    "embed_pending",
    "enable_changes",
    "erase",
    "export",
    "health",
    "import_",
    "import_from",
    "prune_changes",
    "reembed",
    "refresh_words",
    "set_language",
    "stats",
    "switch_space",
    "verify",
}


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    async with proxied(database) as opened:
        yield opened


@pytest.fixture
async def memory(proxy: Proxy) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(proxy.dsn, pool_max_size=1, access_tracking="off") as opened:
        ids = ("get", "update", "delete", "relate", "supersede", "archive")
        await opened.add_many({"content": name, "id": f"{name} {n}"} for name in ids for n in range(9))
        yield opened


async def test_of_every_verb(memory: PostgresMemory, proxy: Proxy) -> None:
    counted = {}
    for verb, (call, _) in CALLS.items():
        for number in range(3):
            proxy.round_trips = 0
            await call(memory, number)
            counted[verb] = proxy.round_trips
    assert counted == {verb: trips for verb, (_, trips) in CALLS.items()}


def test_no_verb_is_forgotten() -> None:
    verbs = {name for name, _ in inspect.getmembers(Verbs, inspect.iscoroutinefunction) if name[0] != "_"}
    assert set(CALLS).isdisjoint(LONG)
    assert set(CALLS) | LONG == verbs


#: A principal's statement runs in a transaction that is bound to it (`store` has two, as `add` has); what the trusted
#: backend ranks is read again.
AS_PRINCIPAL = {"get": 3, "find": 3, "store": 4, "search": 4, "recall": 4, "update": 3, "relate": 3}


async def test_of_a_principal(memory: PostgresMemory, proxy: Proxy) -> None:
    seen = memory.as_principal("alice")
    ids = [(await seen.add(f"tea {number}")).id for number in range(4)]
    calls: dict[str, Call] = {name: CALLS[name][0] for name in ("find", "store", "search", "recall")}
    calls |= {
        "get": lambda verbs, n: verbs.get(ids[n]),
        "update": lambda verbs, n: verbs.update(ids[n], importance=n / 10),
        "relate": lambda verbs, n: verbs.relate(ids[n], ids[n + 1], "supports"),
    }
    counted: dict[str, Any] = {}
    for verb, call in calls.items():
        for number in range(3):
            proxy.round_trips = 0
            await call(seen, number)
            counted[verb] = proxy.round_trips
    assert counted == AS_PRINCIPAL


async def test_of_recall_with_an_embedder(proxy: Proxy) -> None:
    async with PostgresMemory(
        proxy.dsn, pool_max_size=1, access_tracking="off", embedder=embed, space="length"
    ) as memory:
        for number in range(3):
            proxy.round_trips = 0
            await memory.store(f"tea {number}")
            await memory.recall(f"tea {number}")
        assert proxy.round_trips == 2
