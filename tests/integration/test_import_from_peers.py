"""`import_from` on what the packages of the peers write right now, where they are installed.

The reference MCP memory server is an npm package: POSTGRES_MEMORY_TEST_NODE_MODULES names a folder that holds it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from postgres_memory import PostgresMemory, SourceResult

if TYPE_CHECKING:
    from tests.conftest import Database

NODE_MODULES = "POSTGRES_MEMORY_TEST_NODE_MODULES"
GRAPH = """
import { KnowledgeGraphManager } from '%s/@modelcontextprotocol/server-memory/dist/index.js';
const graph = new KnowledgeGraphManager(process.argv[2]);
await graph.createEntities([{name: 'Ada', entityType: 'person', observations: ['likes "ü"']}]);
await graph.addObservations([{entityName: 'Ada', contents: ['likes tea']}]);
await graph.createRelations([{from: 'Ada', to: 'Charles', relationType: 'wrote to'}]);
process.exit(0);
"""


def needs(module: str) -> pytest.MarkDecorator:
    """Skip a test where a package is not installed, and say so."""
    try:
        there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        there = False
    return pytest.mark.skipif(not there, reason=f"{module} is not installed")


class Vectors:
    """Stands in for the embedder that each peer asks for: what it gives is not read."""

    dimensions = 3

    def __init__(self) -> None:
        self.config = self
        self.embedding_dims = 3

    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 2.0, 3.0] for _ in texts]


class PlainVectors(Vectors):
    """The same without a loop, and one by one."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # type: ignore[override]
        return [1.0, 2.0, 3.0]


async def prepared(database: Database) -> str:
    """Return the DSN of a database that has pgvector where the peers look for it."""
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    finally:
        await connection.close()
    return database.direct_dsn


@needs("mem0")
async def test_mem0(
    memory: PostgresMemory, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    main: Any = importlib.import_module("mem0.memory.main")
    base: Any = importlib.import_module("mem0.configs.base")
    monkeypatch.setattr(main.EmbedderFactory, "create", lambda *_, **__: PlainVectors())
    monkeypatch.setattr(main.LlmFactory, "create", lambda *_, **__: None)
    store = {
        "connection_string": await prepared(database),
        "collection_name": "mem0",
        "embedding_model_dims": 3,
    }
    config = base.MemoryConfig(
        vector_store={"provider": "pgvector", "config": store}, history_db_path=str(tmp_path / "history.db")
    )
    theirs = main.Memory(config)
    kept = theirs.add("I like tea.", user_id="alice", run_id="r", metadata={"n": 3}, infer=False)
    gone = theirs.add("I like fog.", user_id="alice", infer=False)
    theirs.delete(gone["results"][0]["id"])
    theirs.vector_store.connection_pool.close()
    assert await memory.import_from("mem0") == SourceResult(read=1, stored=1)
    record = await memory.get(kept["results"][0]["id"])
    assert (record.content, record.session_id) == ("I like tea.", "r")
    assert record.metadata == {"n": 3, "role": "user", "user_id": "alice", "run_id": "r"}


@needs("langgraph.store.postgres")
async def test_langgraph(memory: PostgresMemory, database: Database) -> None:
    module: Any = importlib.import_module("langgraph.store.postgres")
    async with module.AsyncPostgresStore.from_conn_string(await prepared(database)) as theirs:
        await theirs.setup()
        await theirs.aput(("memories", "alice"), "k", {"text": "old"})
        await theirs.aput(("memories", "alice"), "k", {"text": "Alice likes tea", "n": 1})
        await theirs.aput(("memories", "bob"), "k", {"food": "pizza"}, ttl=60)
    assert await memory.import_from("langgraph") == SourceResult(read=2, stored=2)
    alice, bob = await memory.get_many(["langgraph/memories.alice/k", "langgraph/memories.bob/k"])
    assert alice is not None
    assert (alice.content, alice.metadata["value"], alice.expires_at) == ("Alice likes tea", {"n": 1}, None)
    assert bob is not None
    assert bob.content == '{"food": "pizza"}'
    assert bob.expires_at is not None


@needs("pgmemory")
async def test_pgmemory(memory: PostgresMemory, database: Database) -> None:
    module: Any = importlib.import_module("pgmemory.store")
    dsn = (await prepared(database)).replace("postgresql://", "postgresql+asyncpg://")
    async with module.MemoryStore(dsn, Vectors()) as theirs:
        await theirs.add("shop", "alice", "Alice wears M", importance=5, metadata={"a": 1})
    assert await memory.import_from("pgmemory") == SourceResult(read=1, stored=1)
    record = await memory.get("pgmemory/memory/1")
    assert (record.content, record.importance, record.tags) == ("Alice wears M", 1.0, ("general",))
    assert record.metadata["metadata"] == {"a": 1}


@pytest.mark.skipif(NODE_MODULES not in os.environ, reason=f"{NODE_MODULES} names no folder of npm packages")
async def test_mcp_json(memory: PostgresMemory, tmp_path: Path) -> None:
    script, file = tmp_path / "write.mjs", tmp_path / "memory.jsonl"
    script.write_text(GRAPH % os.environ[NODE_MODULES])
    subprocess.run(["node", script, file], check=True, stdin=subprocess.DEVNULL, timeout=60)  # noqa: ASYNC221
    assert await memory.import_from("mcp-json", file) == SourceResult(read=2, stored=1, relations=1)
    ada = await memory.get("entity:Ada")
    assert ada.metadata["observations"] == ['likes "ü"', "likes tea"]
    assert [(one.target_id, one.label) for one in ada.relations] == [("entity:Charles", "wrote to")]
