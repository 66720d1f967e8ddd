"""Bulk loading: `add_many` beside `psql \\copy` of ready rows into the same two tables, and COPY into a bare one."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

import asyncpg
from contest import database, sentence

from postgres_memory import BulkResult, PostgresMemory
from postgres_memory._embedded import binaries
from postgres_memory.embedding.hashing import hash_counts_many
from postgres_memory.ids import new_id

ROWS = int(os.environ.get("BENCH_ROWS", "100000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))


async def main() -> None:
    async with database() as dsn, PostgresMemory(dsn, namespace="bulk") as memory:
        items = [{"content": sentence(n), "metadata": {"i": n}} for n in range(ROWS)]
        rates: dict[str, list[float]] = {"ours": [], "psql": [], "psql one table": []}
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            files = Path(folder, "memories.tsv"), Path(folder, "hashes.tsv")
            for _ in range(ROUNDS):
                await empty(dsn)
                rates["ours"].append(await timed(memory.add_many(items)))
                await empty(dsn)
                write_files(items, *files)
                rates["psql"].append(copy_files(dsn, *files))
                await empty(dsn)
                rates["psql one table"].append(copy_files(dsn, files[0]))
        medians = {name: statistics.median(values) for name, values in rates.items()}
        for name, rate in medians.items():
            each = " ".join(f"{value:,.0f}" for value in rates[name])
            print(f"{name:16} {rate:10,.0f} memories/s   ours = {medians['ours'] / rate:.2f} x   ({each})")


async def timed(loading: Awaitable[BulkResult]) -> float:
    begin = time.perf_counter()
    result = await loading
    assert result.stored == ROWS
    return ROWS / (time.perf_counter() - begin)


async def empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("TRUNCATE memory.memories CASCADE")
    await connection.execute("CHECKPOINT")
    await connection.close()


def write_files(items: list[dict[str, object]], memories: Path, hashes: Path) -> None:
    """Write ready rows: ids, numbers and counts are there already."""
    counts = hash_counts_many([str(item["content"]) for item in items]).tolist()
    with memories.open("w") as one, hashes.open("w") as two:
        for number, (item, row) in enumerate(zip(items, counts, strict=True), 1):
            one.write(f"bulk\t{new_id()}\t{number}\t{item['content']}\t{json.dumps(item['metadata'])}\n")
            two.write(f"bulk\t{number}\tactive\t{json.dumps(row)}\n")


def copy_files(dsn: str, memories: Path, hashes: Path | None = None) -> float:
    commands = [f"\\copy memory.memories (namespace, id, seq, content, metadata) from '{memories}'"]
    if hashes is not None:
        commands.append(
            f"\\copy memory.memory_hash_embeddings (namespace, seq, status, embedding) from '{hashes}'"
        )
    arguments = [part for command in commands for part in ("-c", command)]
    begin = time.perf_counter()
    subprocess.run([str(binaries() / "psql"), "-qX1", "-v", "ON_ERROR_STOP=1", *arguments, dsn], check=True)
    return ROWS / (time.perf_counter() - begin)


if __name__ == "__main__":
    asyncio.run(main())
