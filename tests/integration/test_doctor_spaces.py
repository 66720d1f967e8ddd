"""`doctor` on what is stored: embedding spaces, their indexes, and hash embeddings."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from postgres_memory import PostgresMemory
from postgres_memory._doctor import spaces
from tests.conftest import Database
from tests.embedders import WordEmbedder

from .examined import execute, finding, findings


@pytest.fixture
async def memory(database: Database) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as opened:
        await opened.add_many([f"content {number}" for number in range(50)])
        yield opened


class TestFilledSpaces:
    async def test_half_filled_then_switched_then_dropped(self, memory: PostgresMemory) -> None:
        other = WordEmbedder("others", 4)
        await memory.reembed("others", embedder=other)
        one = await finding(memory, "filled_spaces")
        assert (one.severity, one.data["space"]) == ("notice", "others")
        await memory.switch_space("others")
        one = await finding(memory, "filled_spaces")
        assert (one.severity, one.data["space"]) == ("notice", "words")
        assert "drop_space('words')" in str(one.fix)
        await memory.drop_space("words")
        assert (await finding(memory, "filled_spaces")).severity == "ok"

    async def test_a_space_of_another_namespace_that_was_begun(
        self, database: Database, memory: PostgresMemory
    ) -> None:
        async with PostgresMemory(database.dsn, namespace="other", embedder=WordEmbedder()) as other:
            await other.store("something")
            await other.reembed("begun", embedder=WordEmbedder("begun"))
        one = await finding(memory, "filled_spaces")
        assert (one.severity, one.data) == ("notice", {"namespace": "other", "space": "begun"})

    @pytest.mark.parametrize(("number", "severity"), [(1, "notice"), (40, "warning")])
    async def test_memories_that_wait(
        self, database: Database, memory: PostgresMemory, number: int, severity: str
    ) -> None:
        async with PostgresMemory(database.dsn) as without:
            await without.add_many([f"later {one}" for one in range(number)])
        one = await finding(memory, "filled_spaces")
        assert (one.severity, one.data["pending"], one.data["sampled"]) == (severity, number, 50 + number)
        assert one.fix == "await memory.embed_pending()"
        await memory.embed_pending()
        assert (await finding(memory, "filled_spaces")).severity == "ok"

    async def test_the_oldest_are_looked_at_too(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spaces, "SAMPLE", 10)
        await execute(
            database,
            "UPDATE memory.memory_embeddings SET embedding = NULL "
            "WHERE seq = (SELECT min(seq) FROM memory.memories)",
        )
        assert (await finding(memory, "filled_spaces")).data["pending"] == 1


class TestVectorIndexes:
    @pytest.mark.parametrize(("m", "ef_construction"), [(7, 64), (8, 31)])
    async def test_weak_parameters(self, memory: PostgresMemory, m: int, ef_construction: int) -> None:
        await memory.create_index("words", m=m, ef_construction=ef_construction)
        one = await finding(memory, "vector_indexes")
        assert (one.severity, one.data["m"], one.data["ef_construction"]) == ("warning", m, ef_construction)
        assert one.fix == "await memory.create_index('words', m=16, ef_construction=64)"
        await memory.create_index("words", m=8, ef_construction=32)
        assert (await finding(memory, "vector_indexes")).severity == "ok"

    async def test_a_pgvector_without_iterative_scan(
        self, database: Database, memory: PostgresMemory
    ) -> None:
        await memory.create_index("words")
        await execute(database, "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
        one = await finding(memory, "vector_indexes")
        assert (one.severity, one.fix) == ("problem", "ALTER EXTENSION vector UPDATE;")
        one = await finding(memory, "vector_version")
        assert (one.severity, one.fix) == ("problem", "ALTER EXTENSION vector UPDATE;")
        await execute(database, "UPDATE pg_extension SET extversion = '0.8.0' WHERE extname = 'vector'")
        assert (await finding(memory, "vector_indexes")).severity == "ok"
        assert (await finding(memory, "vector_version")).severity == "notice"

    @pytest.mark.parametrize("method", ["hnsw", "ivfflat"])
    async def test_an_index_made_by_hand(
        self, database: Database, memory: PostgresMemory, method: str
    ) -> None:
        await execute(
            database,
            f"CREATE INDEX by_hand ON memory.memory_embeddings USING {method} "
            "((embedding::vector(8)) vector_cosine_ops)",
        )
        one = await finding(memory, "vector_indexes")
        assert (one.severity, one.data["index"]) == ("notice", "by_hand")
        await execute(database, str(one.fix))
        assert (await finding(memory, "vector_indexes")).severity == "ok"


class TestLargeSpaces:
    async def test_without_an_index(self, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (await finding(memory, "large_spaces")).severity == "ok"
        monkeypatch.setattr(spaces, "LARGE", 50 * (8 + 64))
        one = await finding(memory, "large_spaces")
        assert (one.severity, one.data["rows"], one.data["space"]) == ("warning", 50, "words")
        assert one.fix == "await memory.create_index('words')"
        monkeypatch.setattr(spaces, "LARGE", 51 * (8 + 64))
        assert (await finding(memory, "large_spaces")).severity == "ok"
        monkeypatch.setattr(spaces, "LARGE", 50 * (8 + 64))
        await memory.create_index("words")
        assert (await finding(memory, "large_spaces")).severity == "ok"

    async def test_of_another_namespace_that_the_statistics_name(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with PostgresMemory(database.dsn, namespace="other", embedder=WordEmbedder()) as other:
            await other.add_many([f"content {number}" for number in range(200)])
        await execute(database, "ANALYZE memory.memory_embeddings")
        monkeypatch.setattr(spaces, "LARGE", 200 * (8 + 64))
        one = await finding(memory, "large_spaces")
        assert (one.severity, one.data["namespace"], one.data["rows"]) == ("warning", "other", 200)

    async def test_memory_for_building(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spaces, "LARGE", 50 * (8 + 64))
        await memory.add_many([f"more {number}" for number in range(2_000)])
        await execute(
            database,
            "ANALYZE memory.memory_embeddings",
            f"ALTER DATABASE \"{database.name}\" SET maintenance_work_mem = '1MB'",
        )
        async with PostgresMemory(database.direct_dsn) as other:
            one = await finding(other, "maintenance_memory")
            assert (one.severity, one.data["maintenance_work_mem"]) == ("warning", 1024**2)
            assert one.data["needed"] > 1024**2
            await memory.create_index("words")
            assert (await finding(other, "maintenance_memory")).severity == "ok"


class TestHashEmbeddings:
    async def test_a_wrong_one_is_found_and_the_fix_puts_it_right(
        self, database: Database, memory: PostgresMemory
    ) -> None:
        assert (await finding(memory, "hash_embeddings")).data["sampled"] == 50
        await execute(
            database,
            "UPDATE memory.memory_hash_embeddings SET embedding = (SELECT array_agg(7)::vector FROM "
            "generate_series(1, 32)) WHERE seq = (SELECT max(seq) FROM memory.memories)",
        )
        one = await finding(memory, "hash_embeddings")
        assert (one.severity, len(one.data["wrong"])) == ("problem", 1)
        await execute(database, str(one.fix))
        assert (await finding(memory, "hash_embeddings")).severity == "ok"

    async def test_the_sample_is_bounded_and_spread(self, database: Database, memory: PostgresMemory) -> None:
        await memory.add_many([f"content {number}" for number in range(2_000)])
        assert (await finding(memory, "hash_embeddings")).data["sampled"] == 200
        await execute(
            database, "UPDATE memory.memory_hash_embeddings SET embedding = embedding * embedding + embedding"
        )
        (one,) = await findings(memory, "hash_embeddings")
        assert len(one.data["wrong"]) == 100
        await memory.clear()
        assert (await finding(memory, "hash_embeddings")).data["sampled"] == 0

    async def test_long_contents_are_not_all_read(self, memory: PostgresMemory) -> None:
        await memory.clear()
        await memory.add_many([f"{number} " + "x" * 60_000 for number in range(50)])
        assert (await finding(memory, "hash_embeddings")).data["sampled"] <= 15
