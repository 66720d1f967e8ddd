"""`doctor` on what to switch on at which size; the sizes are made small."""

from __future__ import annotations

import pytest

from postgres_memory import PostgresMemory
from postgres_memory._doctor import sizes
from tests.conftest import Database

from .examined import execute, finding, findings


async def fill(memory: PostgresMemory, memories: int, *, with_metadata: int) -> None:
    await memory.add_many(
        [
            {"content": f"content {n}", "metadata": {"n": n} if n < with_metadata else {}}
            for n in range(memories)
        ]
    )


class TestLargeNamespaces:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sizes, "LARGE_NAMESPACE", 100)

    async def test_this_one_is_counted(self, memory: PostgresMemory) -> None:
        await fill(memory, 99, with_metadata=0)
        assert (await finding(memory, "large_namespaces")).severity == "ok"
        await memory.store("one more")
        one = await finding(memory, "large_namespaces")
        assert (one.severity, one.data) == ("notice", {"namespace": memory.namespace, "memories": 100})
        assert "ranking='hybrid'" in str(one.fix)

    async def test_others_are_in_the_statistics(self, database: Database, memory: PostgresMemory) -> None:
        await fill(memory, 150, with_metadata=0)
        async with PostgresMemory(database.dsn, namespace="another") as another:
            assert (await finding(another, "large_namespaces")).severity == "ok"
            await execute(database, "ANALYZE memory.memories")
            one = await finding(another, "large_namespaces")
        assert one.data == {"namespace": memory.namespace, "memories": 150}

    async def test_the_fix_is_one(self, database: Database, memory: PostgresMemory) -> None:
        await fill(memory, 100, with_metadata=0)
        async with PostgresMemory(database.dsn, namespace=memory.namespace, ranking="hybrid") as ranked:
            assert (await finding(ranked, "large_namespaces")).severity == "ok"
            assert (await ranked.search("content 7"))[0].content == "content 7"


class TestMetadataIndex:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sizes, "MUCH_METADATA", 100)

    async def test_it_is_missed_until_it_is_there(self, database: Database, memory: PostgresMemory) -> None:
        await fill(memory, 99, with_metadata=99)
        assert (await finding(memory, "metadata_index")).severity == "ok"
        await memory.store("one more", {"n": 100})
        one = await finding(memory, "metadata_index")
        assert (one.severity, one.data["memories"]) == ("notice", 100)
        assert str(one.fix).startswith("await memory.create_metadata_index()")
        await memory.create_metadata_index()
        assert (await finding(memory, "metadata_index")).severity == "ok"
        await execute(database, "DROP INDEX memory.memories_metadata_idx")
        assert (await finding(memory, "metadata_index")).severity == "notice"

    @pytest.mark.parametrize(("memories", "severity"), [(150, "ok"), (210, "notice")])
    async def test_memories_without_metadata_do_not_count(
        self, database: Database, memory: PostgresMemory, memories: int, severity: str
    ) -> None:
        await fill(memory, memories, with_metadata=memories // 2)
        await execute(database, "ANALYZE memory.memories")
        assert (await finding(memory, "metadata_index")).severity == severity

    async def test_where_few_have_metadata_statistics_say_how_many(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sizes, "MUCH_METADATA", 50)
        await fill(memory, 600, with_metadata=60)
        await execute(database, "ANALYZE memory.memories")
        one = await finding(memory, "metadata_index")
        assert (one.severity, one.data["memories"]) == ("notice", 600)
        assert "60 memories with metadata" in one.seen


async def test_large_tables(
    database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(memory, 400, with_metadata=0)
    await execute(database, "VACUUM ANALYZE")
    assert (await finding(memory, "large_tables")).severity == "ok"
    monkeypatch.setattr(sizes, "LARGE_TABLE", 300)
    assert (await finding(memory, "large_tables")).severity == "ok"
    monkeypatch.setattr(sizes, "MOST_WAITING", 50)
    late = {one.data["table"]: one for one in await findings(memory, "large_tables")}
    assert late["memories"].severity == "notice"
    # A fifth of 400 is more than 50, a tenth is not.
    assert "autovacuum waits until 80 are dead" in late["memories"].seen
    assert "changed" not in late["memories"].seen
    assert "autovacuum_vacuum_scale_factor = 0.02" in str(late["memories"].fix)
    for one in late.values():
        await execute(database, str(one.fix))
    assert (await finding(memory, "large_tables")).severity == "ok"
