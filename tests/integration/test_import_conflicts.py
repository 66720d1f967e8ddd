"""`import_` into a filled namespace, of plain lines, and from streams."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from postgres_memory import PostgresMemory, PostgresSession
from postgres_memory.bulk_records import ImportFailure, ImportResult
from postgres_memory.errors import (
    ConflictError,
    InvalidTypeError,
    InvalidValueError,
)
from postgres_memory.records import MemoryRelationType
from tests.conftest import Database
from tests.integration.export_namespaces import (
    Pipe,
    exported,
    opened,
    wipe,
)


class TestConflicts:
    async def test_error_stores_nothing_and_names_the_memory(
        self, full: PostgresMemory, database: Database
    ) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            await target.add("there", id="c")
            with pytest.raises(ConflictError, match="line 4: there is a memory 'c' already") as raised:
                await target.import_(io.BytesIO(data))
            assert raised.value.id == "c"
            await target.delete("c")
            content = (await full.get("b")).content
            await target.add(content, id="mine", dedupe="content")
            with pytest.raises(ConflictError, match=r"line 3: .*deduped content of 'b'"):
                await target.import_(io.BytesIO(data))
            await target.delete("mine")
            async with PostgresSession(database.dsn, "t", namespace="to") as session:
                await session.add_messages([{"there": True}])
                with pytest.raises(ConflictError, match="session 't'"):
                    await target.import_(io.BytesIO(data))
                assert await session.get_messages() == [{"there": True}]
            assert await target.count(include_inactive=True) == 0

    async def test_ignore_leaves_what_is_there(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            mine = await target.add("mine", id="c")
            async with PostgresSession(database.dsn, "s", namespace="to") as session:
                await session.add_messages([{"there": True}])
            result = await target.import_(io.BytesIO(data), on_conflict="ignore", batch_size=2)
            assert result == ImportResult(
                stored=3, ignored=1, relations=1, relations_ignored=1, messages=1, messages_ignored=2
            )
            assert await target.get("c") == mine
            (relation,) = (await target.get("b")).relations
            assert (relation.target_id, relation.metadata) == ("c", {"k": 1})
            assert (await target.get("a")).status == "superseded"
            again = await target.import_(io.BytesIO(data), on_conflict="ignore")
            assert again == ImportResult(ignored=4, relations_ignored=2, messages_ignored=3)

    async def test_ignore_leaves_out_relations_to_a_content_that_is_there(
        self, full: PostgresMemory, database: Database
    ) -> None:
        await full.relate("d", "b", MemoryRelationType.RELATED)
        data = await exported(full)
        async with opened(database, "to") as target:
            await target.add((await full.get("b")).content, id="mine", dedupe="content")
            result = await target.import_(io.BytesIO(data), on_conflict="ignore")
            assert (result.stored, result.ignored) == (3, 1)
            assert (result.relations, result.relations_ignored) == (1, 2)
            assert (await target.get("d")).relations == ()

    async def test_update_makes_them_what_the_file_says(
        self, full: PostgresMemory, database: Database
    ) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            for _ in range(3):
                await target.add("mine", id="b", tags=["mine"], on_conflict="update")
            await target.add("kept", id="kept")
            await target.supersede("kept", "mine too", id="d")
            await target.relate("b", "kept", MemoryRelationType.EXTENDS)
            async with PostgresSession(database.dsn, "s", namespace="to") as session:
                await session.add_messages([{"there": True}])
                result = await target.import_(io.BytesIO(data), on_conflict="update", batch_size=2)
                assert await session.get_messages() == [{"n": 1}, {"n": 2}]
            assert result == ImportResult(stored=4, relations=2, messages=3)
            b, d = await target.get("b"), await target.get("d")
            old = await full.get("b")
            assert b.updated_at is not None
            assert old.updated_at is not None
            assert b.updated_at > old.updated_at
            assert (b.version, d.version, d.supersedes) == (4, 2, None)
            assert [relation.target_id for relation in b.relations] == ["kept", "c"]
            kept = replace(
                b, version=old.version, updated_at=old.updated_at, namespace="full", relations=old.relations
            )
            assert kept == old
            assert (await target.verify()).differences == ()
            assert (await target.add(old.content, dedupe="content")).id == "b"

    async def test_update_goes_by_id_and_not_by_content(
        self, full: PostgresMemory, database: Database
    ) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            await target.add((await full.get("b")).content, id="mine", dedupe="content")
            with pytest.raises(ConflictError, match="'mine' holds the deduped content of 'b'") as raised:
                await target.import_(io.BytesIO(data), on_conflict="update")
            assert raised.value.id == "mine"
            assert await target.count(include_inactive=True) == 1

    async def test_update_forgets_no_access(self, database: Database) -> None:
        async with PostgresMemory(database.dsn, namespace="full", access_tracking="inline") as memory:
            await memory.add("x", id="x")
            await memory.get("x")
            data = await exported(memory)
            await memory.get("x")
            await memory.import_(io.BytesIO(data), on_conflict="update")
            assert (await memory.get("x")).access_count == 2

    async def test_a_deduped_memory_is_met_again_after_the_import(
        self, full: PostgresMemory, database: Database
    ) -> None:
        async with opened(database, "to") as target:
            await target.import_(io.BytesIO(await exported(full)))
            content = (await full.get("b")).content
            assert (await target.add(content, dedupe="content")).id == "b"
            assert (await target.add("first", dedupe="content")).id != "a"

    async def test_two_imports_at_once_store_one(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "to") as one, opened(database, "to") as two:
            outcomes = await asyncio.gather(
                *(memory.import_(io.BytesIO(data), batch_size=1) for memory in (one, two)),
                return_exceptions=True,
            )
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ConflictError", "ImportResult"]
            assert await one.count(include_inactive=True) == 4


class TestPlainLines:
    async def test_good_lines_are_stored_and_bad_ones_are_named(self, memory: PostgresMemory) -> None:
        lines = [
            b'\xef\xbb\xbf{"content": "first", "metadata": {"n": 1e23}}',
            b"",
            b"not json",
            b'{"content": "x", "tags": []}',
            b'{"content": 17}',
            b'{"content": "nul \\u0000"}',
            b'{"metadata": {}}',
            b'{"content": "x", "content": "y"}',
            b'{"content": "x", "metadata": {"a": [NaN]}}',
            b'{"content": "\xff"}',
            b'{"content": "last", "metadata": null}\r',
        ]
        seen: list[tuple[int, int | None]] = []
        for stream in (io.BytesIO(b"\n".join(lines)), Pipe(b"\n".join(lines))):
            result = await memory.import_(
                cast(Any, stream), batch_size=3, progress=lambda done, total: seen.append((done, total))
            )
            assert (result.stored, [failure.line for failure in result.failed]) == (2, [*range(3, 11)])
            assert result.failed[1] == ImportFailure(
                4, "unknown key 'tags'; only content and metadata are read"
            )
            assert seen[-1] == (10, None)
        entries = await memory.search("")
        assert [(entry.content, entry.metadata) for entry in entries] == [
            ("first", {"n": 1e23}),
            ("last", {}),
        ] * 2

    async def test_an_empty_file_holds_nothing(self, memory: PostgresMemory) -> None:
        assert await memory.import_(io.BytesIO(b"")) == ImportResult()
        assert await memory.import_(io.BytesIO(b"\n \n")) == ImportResult()

    async def test_a_line_that_is_too_long_is_one_bad_line(
        self, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("postgres_memory._transfer.plain.MAX_PLAIN_BYTES", 64)
        long = json.dumps({"content": "x" * 1000}).encode()
        for data in (b'{"content": "a"}\n' + long + b'\n{"content": "b"}\n', long + b"\n"):
            result = await memory.import_(io.BytesIO(data))
            assert [failure.reason for failure in result.failed] == ["longer than 64 bytes"]
        assert [entry.content for entry in await memory.search("")] == ["a", "b"]

    async def test_paths_and_text_streams(self, memory: PostgresMemory, tmp_path: Path) -> None:
        path = tmp_path / "plain.jsonl"
        path.write_text('{"content": "né"}\n', encoding="utf-8")
        assert (await memory.import_(path)).stored == 1
        assert (await memory.import_(io.StringIO('{"content": "né"}'))).stored == 1
        with tempfile.TemporaryFile("w+", encoding="utf-8") as stream:
            stream.write('before\n{"content": "né"}\n')
            stream.seek(len("before\n"))
            assert (await memory.import_(stream)).stored == 1
        assert [entry.content for entry in await memory.search("")] == ["né"] * 3

    async def test_a_line_about_a_format_is_an_ordinary_one(self, memory: PostgresMemory) -> None:
        data = b'{"content": "x", "metadata": {"format": "postgres-memory"}}\n'
        assert (await memory.import_(io.BytesIO(data))).stored == 1


async def test_streams_are_left_open_and_read_from_where_they_are(
    full: PostgresMemory, database: Database
) -> None:
    data = await exported(full)
    async with opened(database, "to") as target:
        text = io.StringIO("before" + data.decode())
        text.seek(6)
        assert (await target.import_(text)).stored == 4
        assert not text.closed
        await wipe(database, "to")
        with tempfile.TemporaryFile(buffering=0) as raw:
            raw.write(data)
            raw.seek(0)
            assert (await target.import_(raw)).stored == 4
            assert not raw.closed


async def test_bad_arguments(memory: PostgresMemory, tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match="source"):
        await memory.import_(cast(Any, 5))
    with pytest.raises(InvalidValueError, match="batch_size"):
        await memory.import_(io.BytesIO(b""), batch_size=0)
    with pytest.raises(InvalidValueError, match="on_conflict"):
        await memory.import_(io.BytesIO(b""), on_conflict=cast(Any, "skip"))
    with pytest.raises(FileNotFoundError):
        await memory.import_(tmp_path / "missing")


async def test_the_space_does_not_grow_with_the_namespace(database: Database, tmp_path: Path) -> None:
    async def peaks(namespace: str, count: int) -> tuple[int, int]:
        found = []
        async with opened(database, namespace) as source, opened(database, f"{namespace}-to") as target:
            await source.add_many(f"memory number {number}" for number in range(count))
            path = tmp_path / namespace
            for work in (lambda: source.export(path), lambda: target.import_(path, batch_size=200)):
                tracemalloc.start()
                await work()
                found.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        return found[0], found[1]

    await peaks("warm", 400)
    small, large = await peaks("small", 1_000), await peaks("large", 8_000)
    assert large[0] < small[0] * 1.5
    assert large[1] < small[1] * 1.5
