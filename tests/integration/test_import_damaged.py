"""`import_` of files that are not whole, and that it is all or nothing."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.bulk_records import ImportResult
from postgres_memory.errors import (
    ConflictError,
    InvalidValueError,
    NotFoundError,
)
from tests.conftest import Database
from tests.integration.export_files import changed, damaged, parts_of, sealed
from tests.integration.export_namespaces import (
    Pipe,
    exported,
    nothing_in,
    opened,
    resealed,
    wipe,
)


class TestDamagedFiles:
    async def test_none_of_them_is_imported(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            for what, file in damaged(data):
                for stream in (io.BytesIO(file), Pipe(file)):
                    detected = False
                    try:
                        await target.import_(cast(Any, stream), on_conflict="ignore", batch_size=2)
                    except InvalidValueError as error:
                        detected = re.search(r"source: .*(line|file)", str(error)) is not None
                    assert detected, what
            assert await nothing_in(database, "to")

    async def test_no_flipped_bit_goes_unnoticed(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            for place in range(len(data)):
                flipped = bytearray(data)
                flipped[place] ^= 1 << (place % 8)
                try:
                    result = await target.import_(io.BytesIO(bytes(flipped)))
                except InvalidValueError:
                    continue
                # What is no export any more holds no plain line either.
                assert result.stored == 0
                assert result.failed
            assert await nothing_in(database, "to")

    async def test_it_says_what_is_wrong(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        lines = data.splitlines(keepends=True)
        header = parts_of(data)[0]

        def with_header(**values: Any) -> bytes:
            spelt = json.dumps(header | values, ensure_ascii=False, separators=(",", ":")).encode()
            return spelt + b"\n" + b"".join(lines[1:])

        cases = {
            "the file ends without its trailer: it is truncated": b"".join(lines[:-1]),
            "line 12: is cut off": data[:-1],
            "line 3: is cut off": data[: len(lines[0]) + len(lines[1]) + 30],
            "line 13: follows the trailer": data + lines[-1],
            "line 12: the checksum does not match": data.replace(b"first", b"farst"),
            "the file holds 3 memories.*announces 4 memories": b"".join([lines[0], *lines[2:]]),
            "line 1: ends with CRLF": data.replace(b"\n", b"\r\n"),
            "byte order mark": b"\xef\xbb\xbf" + data,
            "format version 2; .*use a newer one": with_header(format_version=2),
            "header of another format": with_header(format="mem0"),
            "damaged header: its keys": with_header(extra=1),
            "damaged header: its counts": with_header(counts={}),
            "embedding spaces": with_header(embedding_spaces=[]),
            "damaged header: namespace": with_header(namespace=""),
            "beginning of the file is missing": b"".join(lines[1:]),
            "line 2: is a line of an export, whose header": b"garbage\n" + data.split(b"\n", 1)[1],
            "line 6: is of a kind": data.replace(b'"kind":"supersedes"', b'"kind":"supersets"'),
        }
        async with opened(database, "to") as target:
            for pattern, file in cases.items():
                with pytest.raises(InvalidValueError, match=pattern):
                    await target.import_(io.BytesIO(file))
            assert await nothing_in(database, "to")

    async def test_a_well_sealed_file_with_a_wrong_line(
        self, full: PostgresMemory, database: Database
    ) -> None:
        data = await exported(full)
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("memory", {"importance": 1.5}, r"line 2: importance"),
            ("memory", {"status": "lost"}, "status"),
            ("memory", {"content": "nul \0"}, "NUL"),
            ("memory", {"content": 5}, "content"),
            ("memory", {"content": "\ud800" * 2}, "UTF-8|surrogate"),
            ("memory", {"id": ""}, "id: must not be empty"),
            ("memory", {"created_at": "yesterday"}, "created_at"),
            ("memory", {"created_at": "2020-01-01T00:00:00"}, "offset"),
            ("memory", {"updated_at": None}, "updated_at"),
            ("memory", {"access_count": 3}, "last_accessed"),
            ("memory", {"access_count": -1}, "access_count"),
            ("memory", {"version": 0}, "version"),
            ("memory", {"deduped": 1}, "deduped"),
            ("memory", {"tags": "x"}, "tags"),
            ("memory", {"metadata": []}, "metadata"),
            ("memory", {"metadata": {"x": float("inf")}}, "Infinity"),
            ("memory", {"namespace": "other"}, "keys of a memory"),
            ("memory", {"content": "x" * 1_048_577}, "at most 1048576 bytes"),
            ("supersedes", {"replaced": "c"}, "itself"),
            ("relation", {"target_id": "b"}, "itself"),
            ("relation", {"relation_type": "likes"}, "relation_type"),
            ("relation", {"target_namespace": "other"}, "keys of a relation"),
            ("relation", {"confidence": -0.1}, "confidence"),
            ("message", {"message": "text"}, "message"),
            ("message", {"session_id": "z"}, "session"),
            ("message", {"owner": None}, "owner"),
        ]
        async with opened(database, "to") as target:
            for kind, values, pattern in wrong:
                if values.get("content") == "\ud800" * 2:
                    file = resealed(changed(data, kind, content="LONE").replace(b"LONE", b"\\ud800"))
                else:
                    file = changed(data, kind, **values)
                for stream in (io.BytesIO(file), Pipe(file)):
                    with pytest.raises(InvalidValueError, match=pattern):
                        await target.import_(cast(Any, stream))
            assert await nothing_in(database, "to")

    async def test_a_line_may_be_only_so_long(
        self, full: PostgresMemory, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = await exported(full)
        monkeypatch.setattr("postgres_memory._transfer.reading.MAX_LINE_BYTES", 400)
        long = data.replace(b"first", b"f" * 500)
        async with opened(database, "to") as target:
            with pytest.raises(InvalidValueError, match="line 2: is longer than 400 bytes"):
                await target.import_(io.BytesIO(long))
        monkeypatch.setattr("postgres_memory._transfer.encoding.MAX_LINE_BYTES", 400)
        await full.add("x" * 500)
        with pytest.raises(InvalidValueError, match="line of more than 400 bytes"):
            await full.export(io.BytesIO())


class TestAllOrNothing:
    async def test_a_relation_to_a_missing_memory(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "other") as other, opened(database, "to") as target:
            await other.add("of another namespace", id="elsewhere")
            for kind, values in (
                ("relation", {"target_id": "elsewhere"}),
                ("relation", {"source_id": "elsewhere"}),
                ("supersedes", {"replaced": "elsewhere"}),
            ):
                with pytest.raises(NotFoundError, match="elsewhere") as raised:
                    await target.import_(io.BytesIO(changed(data, kind, **values)))
                assert raised.value.ids == ("elsewhere",)
            assert await nothing_in(database, "to")

    async def test_a_memory_twice(self, full: PostgresMemory, database: Database) -> None:
        lines = parts_of(await exported(full))
        again = lines[1] | {"content": "again"}
        twice = sealed([*lines[:3], again, *lines[3:]])
        async with opened(database, "to") as target:
            for batch_size in (1, 100):
                with pytest.raises(ConflictError, match="'a'"):
                    await target.import_(io.BytesIO(twice), batch_size=batch_size)
                assert await nothing_in(database, "to")
                for on_conflict, content in (("ignore", "first"), ("update", "again")):
                    result = await target.import_(
                        io.BytesIO(twice), batch_size=batch_size, on_conflict=cast(Any, on_conflict)
                    )
                    assert result.stored + result.ignored == 5
                    assert (await target.get("a")).content == content
                    await wipe(database, "to")

    async def test_it_joins_the_callers_transaction(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            with suppress(KeyError):
                async with target.transaction() as inside:
                    assert (await inside.import_(io.BytesIO(data))).stored == 4
                    assert await inside.count(include_inactive=True) == 4
                    raise KeyError
            assert await nothing_in(database, "to")
            async with target.transaction() as inside:
                with pytest.raises(InvalidValueError):
                    await inside.import_(cast(Any, Pipe(data[:-9])))
                await inside.store("goes on")
            assert [entry.content for entry in await target.search("")] == ["goes on"]

    async def test_a_cancelled_import_leaves_nothing(self, full: PostgresMemory, database: Database) -> None:
        data = await exported(full)
        async with opened(database, "to") as target:
            task: asyncio.Task[ImportResult]

            def cancel(done: int, total: int | None) -> None:
                task.cancel()

            task = asyncio.create_task(target.import_(io.BytesIO(data), batch_size=1, progress=cancel))
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await nothing_in(database, "to")
            assert (await target.import_(io.BytesIO(data))).stored == 4

    async def test_an_error_of_progress_leaves_nothing(
        self, full: PostgresMemory, database: Database
    ) -> None:
        def fail(done: int, total: int | None) -> None:
            raise KeyError(done)

        data = await exported(full)
        async with opened(database, "to") as target:
            with pytest.raises(KeyError):
                await target.import_(io.BytesIO(data), batch_size=2, progress=fail)
            assert await nothing_in(database, "to")

    async def test_a_killed_import_leaves_nothing(
        self, full: PostgresMemory, database: Database, tmp_path: Path
    ) -> None:
        await full.add_many(f"memory {number}" for number in range(2000))
        path = tmp_path / "many.jsonl"
        await full.export(path)
        program = """
import asyncio, sys, time
from postgres_memory import PostgresMemory

def slow(done, total):
    print(done, flush=True)
    time.sleep(0.5)

async def main():
    async with PostgresMemory(sys.argv[1], namespace="to") as memory:
        await memory.import_(sys.argv[2], batch_size=100, progress=slow)

asyncio.run(main())
"""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, database.dsn, str(path), stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert [await process.stdout.readline() for _ in range(2)] == [b"100\n", b"200\n"]
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        assert await nothing_in(database, "to")
        async with opened(database, "to") as target:
            assert (await target.import_(path)).stored == 2004
