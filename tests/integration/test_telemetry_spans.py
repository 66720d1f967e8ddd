"""Spans: one for each call of a verb, in its place of the trace, with numbers and without contents."""

from __future__ import annotations

import asyncio
import inspect
import io
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.sdk.trace import ReadableSpan

from postgres_memory import PostgresMemory, PostgresSession
from postgres_memory._telemetry import _process
from postgres_memory.config import Dsn
from postgres_memory.errors import (
    DatabaseError,
    DatabaseTimeoutError,
    InvalidTypeError,
    NotFoundError,
    PostgresMemoryError,
)
from postgres_memory.postgres import MemoryWithin, PrincipalMemory
from postgres_memory.sync import SyncPostgresMemory
from postgres_memory.verbs.protocol_verbs import ProtocolVerbs
from tests.conftest import Database
from tests.embedders import WordEmbedder
from tests.faults.test_what_is_logged import SECRET, use
from tests.integration.telemetry import Telemetry, set_up


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    return set_up(monkeypatch)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def verbs_of(cls: type) -> set[str]:
    return {
        name for name, _ in inspect.getmembers(cls, inspect.iscoroutinefunction) if not name.startswith("_")
    }


def calls(
    memory: PostgresMemory, target: io.BytesIO, folder: Path
) -> dict[str, Callable[[], Awaitable[object]]]:
    """A call of every verb that succeeds, in an order in which they do."""
    entities = folder / "memory.jsonl"
    entities.write_text(
        '{"type": "entity", "name": "Mira", "entityType": "person", "observations": ["sings"]}\n'
    )
    return {
        "open": memory.open,
        "migrate": memory.migrate,
        "store": lambda: memory.store("one"),
        "add": lambda: memory.add("two", id="two"),
        "add_many": lambda: memory.add_many(["three", "four", {"content": "five", "id": "five"}]),
        "get": lambda: memory.get("two"),
        "get_many": lambda: memory.get_many(["two", "none", "five"]),
        "search": lambda: memory.search("two", 3),
        "recall": lambda: memory.recall("two", limit=2),
        "find": lambda: memory.find(limit=4),
        "count": memory.count,
        "update": lambda: memory.update("two", content="two and a half"),
        "relate": lambda: memory.relate("two", "five", "contradicts"),
        "relations": lambda: memory.relations("two"),
        "related": lambda: memory.related("two"),
        "contradictions": memory.contradictions,
        "unrelate": lambda: memory.unrelate("two", "five", "contradicts"),
        "supersede": lambda: memory.supersede("two", "another two"),
        "history": lambda: memory.history("two"),
        "restore": lambda: memory.restore("two"),
        "archive": lambda: memory.archive("two"),
        "delete": lambda: memory.delete("two"),
        "delete_many": lambda: memory.delete_many({"content": "three"}),
        "set_language": lambda: memory.set_language("german"),
        "refresh_words": memory.refresh_words,
        "verify": memory.verify,
        "embed_pending": memory.embed_pending,
        "create_index": lambda: memory.create_index("words"),
        "drop_index": lambda: memory.drop_index("words"),
        "reembed": lambda: memory.reembed("others", embedder=WordEmbedder("others", 4)),
        "switch_space": lambda: memory.switch_space("others"),
        "drop_space": lambda: memory.drop_space("words"),
        "spaces": memory.spaces,
        "create_metadata_index": memory.create_metadata_index,
        "drop_metadata_index": memory.drop_metadata_index,
        "export": lambda: memory.export(target),
        "clear": memory.clear,
        "import_": lambda: memory.import_(io.BytesIO(target.getvalue())),
        "import_from": lambda: memory.import_from("mcp-json", entities),
        "namespaces": memory.namespaces,
        "stats": memory.stats,
        "doctor": memory.doctor,
        "health": memory.health,
        "check_isolation": memory.check_isolation,
        "purge_expired": memory.purge_expired,
        "enable_changes": memory.enable_changes,
        "prune_changes": lambda: memory.prune_changes(timedelta(days=1)),
        "disable_changes": memory.disable_changes,
        "erase": lambda: memory.erase(memory.namespace),
        "close": memory.close,
    }


#: What a call of `calls` says of rows; nothing of those left out.
RETURNED = {
    "add": 1, "get": 1, "get_many": 2, "search": 3, "recall": 2, "find": 4, "update": 1, "relate": 1, "relations": 1,
    "related": 1, "contradictions": 1, "supersede": 1, "history": 2, "restore": 1, "archive": 1, "spaces": 1,
    "namespaces": 1,
}  # fmt: skip
ROWS = {
    "add_many": 3,
    "count": 5,
    "unrelate": 1,
    "delete": 1,
    "delete_many": 1,
    "verify": 4,
    "export": 4,
    "import_": 4,
}


async def test_every_verb_makes_one_span(database: Database, telemetry: Telemetry, tmp_path: Path) -> None:
    memory = PostgresMemory(database.dsn, namespace="shop", embedder=WordEmbedder())
    every = calls(memory, io.BytesIO(), tmp_path)
    assert set(every) == verbs_of(PostgresMemory)
    for verb, call in every.items():
        await call()
        span = telemetry.span()
        told = attributes(span)
        assert span.kind is trace.SpanKind.CLIENT
        assert told["db.operation.name"] == verb
        assert told["db.system.name"] == "postgresql"
        assert told["postgres_memory.namespace"] == "shop"
        assert told["db.namespace"] == f"{database.name}|memory"
        assert span.name == f"{verb} {told.get('db.collection.name', '')}".rstrip()
        assert span.status.is_unset, (verb, told)
        assert not span.events
        assert told.get("db.response.returned_rows") == RETURNED.get(verb), verb
        if verb in ROWS:
            assert told["postgres_memory.rows"] == ROWS[verb], verb


async def test_what_a_span_says_it_is_about(database: Database, telemetry: Telemetry) -> None:
    async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as memory:
        telemetry.spans()
        await memory.store("one")
        await memory.spaces()
        await memory.health()
    about = [attributes(span).get("db.collection.name") for span in telemetry.spans()]
    assert about == ["memories", "memory_embeddings", None, None]


async def test_every_verb_of_a_session_makes_one_span(database: Database, telemetry: Telemetry) -> None:
    session = PostgresSession(database.dsn, "talk")
    every: dict[str, Callable[[], Awaitable[object]]] = {
        "open": session.open,
        "add_messages": lambda: session.add_messages([{"role": "user"}, {"role": "assistant"}]),
        "get_messages": session.get_messages,
        "clear": session.clear,
        "close": session.close,
    }
    assert set(every) == verbs_of(PostgresSession)
    names = []
    for call in every.values():
        await call()
        names.append(telemetry.span())
    assert [span.name for span in names] == [
        "open",
        "add_messages session_messages",
        "get_messages session_messages",
        "clear session_messages",
        "close",
    ]
    assert attributes(names[2])["db.response.returned_rows"] == 2


async def test_the_verbs_of_other_views_make_one_span_too(
    memory: PostgresMemory, telemetry: Telemetry
) -> None:
    assert verbs_of(MemoryWithin) == verbs_of(PrincipalMemory)
    for view in (memory.within(10), memory.as_principal("ann")):
        await view.add("one")
        assert telemetry.span().name == "add memories"


def test_verbs_look_as_they_are_written() -> None:
    for cls in (PostgresMemory, MemoryWithin, PrincipalMemory):
        assert inspect.signature(cls.store) == inspect.signature(ProtocolVerbs.store)
        assert inspect.iscoroutinefunction(cls.store)
        assert cls.store.__doc__ == ProtocolVerbs.store.__doc__
        assert cls.store.__qualname__ == "ProtocolVerbs.store"


async def test_the_callers_span_is_the_parent(memory: PostgresMemory, telemetry: Telemetry) -> None:
    with telemetry.tracer.start_as_current_span("request") as request:
        await memory.store("one")
        assert trace.get_current_span() is request
    stored, _ = telemetry.spans()
    assert stored.parent == request.get_span_context()
    await memory.store("two")
    assert telemetry.span().parent is None


async def test_calls_inside_a_transaction_are_its_children(
    memory: PostgresMemory, telemetry: Telemetry
) -> None:
    before = get_current()
    async with memory.transaction() as inside:
        await inside.store("one")
        with telemetry.tracer.start_as_current_span("step"):
            await inside.get_many([])
        await inside.count()
    assert get_current() is before
    stored, read, step, counted, block = telemetry.spans()
    assert (block.name, block.kind, block.parent) == ("transaction", trace.SpanKind.INTERNAL, None)
    assert [span.parent for span in (stored, step, counted)] == [block.context] * 3
    assert read.parent == step.context


async def test_a_transaction_that_fails_is_marked(memory: PostgresMemory, telemetry: Telemetry) -> None:
    before = get_current()
    with pytest.raises(LookupError):
        async with memory.transaction():
            raise LookupError(SECRET)
    assert get_current() is before
    span = telemetry.span()
    assert attributes(span)["error.type"] == "LookupError"
    assert span.status.status_code is trace.StatusCode.ERROR


def test_the_synchronous_form_takes_the_callers_span_over(
    database: Database, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    before = get_current()
    with SyncPostgresMemory(database.dsn) as memory:
        with telemetry.tracer.start_as_current_span("request") as request:
            memory.store("one")
            with memory.transaction() as inside:
                inside.store("two")
                with telemetry.tracer.start_as_current_span("step"):
                    inside.count()
            assert trace.get_current_span() is request
        memory.count()
    assert get_current() is before
    spans = {span.name: span for span in telemetry.spans() if span.name != "store memories"}
    assert spans["transaction"].parent == request.get_span_context()
    assert spans["step"].parent == spans["transaction"].context
    assert spans["close"].parent is None
    assert not caplog.records


def test_a_synchronous_transaction_that_fails(database: Database, telemetry: Telemetry) -> None:
    with SyncPostgresMemory(database.dsn) as memory:
        telemetry.spans()
        with pytest.raises(NotFoundError), memory.transaction() as inside:
            inside.get("none")
        asked, block = telemetry.spans()
        assert asked.parent == block.context
        assert attributes(block)["error.type"] == "NotFoundError"
        assert not trace.get_current_span().is_recording()


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda memory: memory.get(SECRET), NotFoundError, {"error.type": "NotFoundError"}),
        (lambda memory: memory.store(7), InvalidTypeError, {"error.type": "InvalidTypeError"}),
    ],
)
async def test_errors_are_marked(
    memory: PostgresMemory, telemetry: Telemetry, call: Any, error: type[Exception], told: dict[str, str]
) -> None:
    with pytest.raises(error):
        await call(memory)
    span = telemetry.span()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description is None
    assert told.items() <= attributes(span).items()
    assert not span.events


async def test_errors_of_the_server_are_marked_by_their_sqlstate(
    memory: PostgresMemory, database: Database, telemetry: Telemetry
) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT 1 / 0")
        with pytest.raises(DatabaseError):
            await memory.store("one", connection=connection)
        await transaction.rollback()
    finally:
        await connection.close()
    told = attributes(telemetry.span())
    assert (told["error.type"], told["db.response.status_code"]) == ("25P02", "25P02")


async def test_a_cancelled_call_ends_its_span(database: Database, telemetry: Telemetry) -> None:
    started = asyncio.Event()

    async def embed(texts: list[str]) -> list[list[float]]:
        started.set()
        await asyncio.Event().wait()
        return []

    slow = PostgresMemory(database.dsn, embedder=embed, space="slow")
    task = asyncio.create_task(slow.store("one"))
    await started.wait()
    assert telemetry.spans() == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    span = telemetry.span()
    assert attributes(span)["error.type"] == "CancelledError"
    assert span.end_time is not None
    with pytest.raises(DatabaseTimeoutError):
        await slow.within(0.05).store("two")
    assert attributes(telemetry.span())["error.type"] == "DatabaseTimeoutError"
    await slow.close()


async def test_no_contents(database: Database, telemetry: Telemetry) -> None:
    def fails(texts: list[str]) -> list[list[float]]:
        raise ValueError(f"too long: {texts}")

    async with PostgresMemory(database.dsn, embedder=fails, space="fails") as memory:
        await use(memory)
        await memory.as_principal(SECRET).add("one")
        with pytest.raises(PostgresMemoryError):
            await memory.as_principal(SECRET).update(SECRET, content=SECRET)
        with pytest.raises(NotFoundError):
            async with memory.transaction() as inside:
                await inside.archive(SECRET)
        async with PostgresMemory(database.dsn, namespace=SECRET) as other:
            await other.store("another's")
        await memory.namespaces()
    session = PostgresSession(database.dsn, SECRET)
    await session.add_messages([{SECRET: SECRET}])
    await session.close()
    told = telemetry.everything_told()
    # The namespace of the object that was called is told, and of no other.
    assert told.count(SECRET) == told.count(f'"postgres_memory.namespace": "{SECRET}"') == 3
    assert "store memories" in told
    assert "NotFoundError" in told
    assert database.dsn not in told


@pytest.mark.parametrize(
    ("dsn", "server"),
    [
        ("postgresql://user:hush@db.example:6432/app?sslmode=disable", ("db.example", 6432)),
        ("postgresql://user@db.example/app", ("db.example", 5432)),
        ("postgresql://[::1]:5433/app", ("::1", 5433)),
        ("postgresql:///app?host=/run/hush", None),
        ("postgresql://one,two/app", None),
        ("postgresql://user:hush@one/app?host=two", None),
    ],
)
def test_the_server_is_told_where_it_is_one(dsn: str, server: tuple[str, int] | None) -> None:
    assert Dsn(dsn).server == server


async def test_nothing_stays_after_many_calls(memory: PostgresMemory, telemetry: Telemetry) -> None:
    before = get_current()
    for _ in range(50):
        await memory.count()
        with pytest.raises(NotFoundError):
            await memory.get("none")
    await asyncio.gather(*(memory.count() for _ in range(20)))
    assert get_current() is before
    assert len(telemetry.spans()) == 120


ALONE = """
import asyncio, os, sys
import postgres_memory

async def main():
    async with postgres_memory.PostgresMemory(os.environ["POSTGRES_MEMORY_DSN"]) as memory:
        await memory.store("one")

asyncio.run(main())
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""


async def test_opentelemetry_is_not_imported_for_its_own_sake(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    told = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", ALONE], capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"


async def test_without_providers_nothing_is_told(database: Database) -> None:
    assert trace.get_tracer_provider().__class__.__module__ == "opentelemetry.trace"
    seen = []

    async def embed(texts: list[str]) -> list[list[float]]:
        seen.append(trace.get_current_span())
        return [[1.0] for _ in texts]

    async with PostgresMemory(database.dsn, embedder=embed, space="one") as memory:
        await memory.store("one")
    assert seen == [trace.INVALID_SPAN]
    assert _process.looked_up() is None
