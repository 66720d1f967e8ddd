"""`export`: what is written, and that an import of it makes an equal namespace."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory._transfer.writing import in_thread
from postgres_memory.errors import (
    InvalidTypeError,
    UsageError,
)
from postgres_memory.records import MemoryRelationType
from tests.conftest import Database
from tests.integration.export_files import parts_of
from tests.integration.export_namespaces import (
    Pipe,
    create,
    exported,
    namespaces,
    opened,
    state,
    wipe,
)
from tests.json_values import same_json


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(held=namespaces(), batch_size=st.integers(1, 4), piped=st.booleans())
async def test_an_imported_namespace_equals_the_exported_one(
    database: Database, held: dict[str, Any], batch_size: int, piped: bool
) -> None:
    async with opened(database, "from") as source, opened(database, "to") as target:
        for memory in (source, target):
            await wipe(database, memory.namespace)
        await create(source, database.direct_dsn, held)
        data = await exported(source)
        stream = Pipe(data) if piped else io.BytesIO(data)
        result = await target.import_(cast(Any, stream), batch_size=batch_size)
        assert (result.ignored, result.relations_ignored, result.failed) == (0, 0, ())
        before, after = await state(source, database), await state(target, database)
        assert after == before
        assert all(
            same_json(new.metadata, old.metadata)
            for new, old in zip(after["records"], before["records"], strict=True)
        )
        header, *rest = (await exported(target)).splitlines(keepends=True)
        assert json.loads(header) == json.loads(data.splitlines()[0]) | {"namespace": "to"}
        # The checksum covers the header, which names the namespace.
        assert rest[:-1] == data.splitlines(keepends=True)[1:-1]
        assert (await target.verify()).differences == ()


class TestExport:
    async def test_the_file_says_what_it_holds(self, full: PostgresMemory) -> None:
        seen: list[tuple[int, int | None]] = []
        stream = io.BytesIO()
        result = await full.export(stream, progress=lambda done, total: seen.append((done, total)))
        data = stream.getvalue()
        header, *lines, trailer = parts_of(data)
        assert (header["format"], header["format_version"], header["namespace"]) == (
            "postgres-memory",
            1,
            "full",
        )
        assert [space["name"] for space in header["embedding_spaces"]] == ["hash"]
        counts = {"memories": 4, "supersedes": 1, "relations": 2, "messages": 3}
        assert (header["counts"], trailer["counts"]) == (counts, counts)
        kinds = ["memory"] * 4 + ["supersedes"] + ["relation"] * 2 + ["message"] * 3
        assert [line["kind"] for line in lines] == kinds
        assert (result.memories, result.relations, result.messages) == (4, 2, 3)
        assert (result.size, result.sha256) == (len(data), trailer["sha256"])
        assert seen[-1] == (10, 10)
        assert [line["id"] for line in lines[:4]] == ["a", "b", "c", "d"]
        assert lines[0]["metadata"]["n"] == 10**29 + 1
        assert (lines[1]["deduped"], lines[0]["deduped"]) == (True, False)
        assert lines[2]["expires_at"] == "2999-01-01T00:00:00.000007+00:00"

    async def test_an_unchanged_namespace_gives_the_same_bytes(self, full: PostgresMemory) -> None:
        assert await exported(full) == await exported(full)

    async def test_without_session_messages(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full, session_messages=False)
        assert parts_of(data)[0]["counts"]["messages"] == 0
        async with opened(database, "to") as target:
            assert (await target.import_(io.BytesIO(data))).messages == 0
        with pytest.raises(InvalidTypeError, match="session_messages"):
            await full.export(io.BytesIO(), session_messages=cast(Any, 1))

    async def test_paths_and_streams_get_the_same_bytes(self, full: PostgresMemory, tmp_path: Path) -> None:
        data = await exported(full)
        path = tmp_path / "memories.jsonl"
        path.write_text("an older file")
        link = tmp_path / "link"
        link.symlink_to(path)
        await full.export(str(link))
        assert (path.read_bytes(), link.is_symlink()) == (data, True)
        text = io.StringIO()
        await full.export(text)
        assert text.getvalue().encode() == data
        with (tmp_path / "raw").open("wb", buffering=0) as raw:
            await full.export(raw)
        assert (tmp_path / "raw").read_bytes() == data
        assert sorted(os.listdir(tmp_path)) == ["link", "memories.jsonl", "raw"]
        with pytest.raises(InvalidTypeError, match="target"):
            await full.export(cast(Any, 5))

    async def test_a_named_pipe_is_written_directly(self, full: PostgresMemory, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        reading = asyncio.create_task(asyncio.to_thread(fifo.read_bytes))
        await full.export(fifo)
        assert await reading == await exported(full)
        assert os.listdir(tmp_path) == [fifo.name]

    async def test_a_failed_export_leaves_the_older_file_and_nothing_else(
        self, full: PostgresMemory, tmp_path: Path
    ) -> None:
        path = tmp_path / "memories.jsonl"
        path.write_text("an older file")

        def fail(done: int, total: int | None) -> None:
            raise KeyError(done)

        with pytest.raises(KeyError):
            await full.export(path, progress=fail)
        with pytest.raises(FileNotFoundError):
            await full.export(tmp_path / "missing" / "x")
        with pytest.raises(IsADirectoryError):
            await full.export(tmp_path)
        assert os.listdir(tmp_path) == ["memories.jsonl"]
        assert path.read_text() == "an older file"
        assert await full.count() == 2

    async def test_a_cancelled_export_leaves_nothing(self, full: PostgresMemory, tmp_path: Path) -> None:
        arrived, go_on = threading.Event(), threading.Event()

        class Slow(io.BytesIO):
            def write(self, data: Any) -> int:
                arrived.set()
                go_on.wait(10)
                return super().write(data)

        stream = Slow()
        task = asyncio.create_task(full.export(stream))
        await asyncio.to_thread(arrived.wait, 10)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stream.getvalue().count(b"\n") == 1
        assert (await full.export(tmp_path / "after")).memories == 4

    async def test_it_is_one_snapshot(self, full: PostgresMemory, database: Database) -> None:
        before = await exported(full)
        written: list[bytes] = []

        class Meddling(io.BytesIO):
            def write(self, data: Any) -> int:
                if not written:
                    asyncio.run(self._change())
                written.append(bytes(data))
                return len(data)

            async def _change(self) -> None:
                async with opened(database, "full") as other:
                    await other.delete("a")
                    await other.add("new", id="new")
                    await other.relate("new", "b", MemoryRelationType.RELATED)

        await full.export(Meddling())
        assert b"".join(written) == before
        assert await exported(full) != before

    async def test_in_a_transaction_of_the_caller(self, full: PostgresMemory, database: Database) -> None:
        connection = await asyncpg.connect(database.direct_dsn)
        try:
            async with connection.transaction():
                with pytest.raises(UsageError, match="READ COMMITTED"):
                    await full.export(io.BytesIO(), connection=connection)
            async with connection.transaction(isolation="repeatable_read"):
                await full.add("within", id="w", connection=connection)
                stream = io.BytesIO()
                assert (await full.export(stream, connection=connection)).memories == 5
            stream = io.BytesIO()
            assert (await full.export(stream, connection=connection)).memories == 5
            assert await connection.fetchval("SHOW transaction_read_only") == "off"
        finally:
            await connection.close()
        async with full.transaction() as inside:
            with pytest.raises(UsageError, match="READ COMMITTED"):
                await inside.export(io.BytesIO())
            await inside.store("goes on")
        assert await full.count() == 4


async def test_the_file_that_replaces_another_is_read_by_no_one_else(
    memory: PostgresMemory, tmp_path: Path
) -> None:
    await memory.store("a secret")
    path = tmp_path / "memories.jsonl"
    path.touch(mode=0o600)
    path.chmod(0o600)
    await memory.export(path)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_function_beside_the_loop_is_waited_for_however_often_one_is_cancelled() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def write() -> bool:
        begun.set()
        return goes_on.wait(10)

    task = asyncio.create_task(in_thread(write))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
