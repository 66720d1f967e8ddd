"""What the library takes of the client: time to start, and memory. And how costs grow with what is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

from suite.crew import ROOT, ContestantError, Member
from suite.staging import Run, say

_IMPORT = """
import time
begin = time.perf_counter()
{statement}
print(time.perf_counter() - begin)
"""
_STATEMENTS = {
    "ours": "from postgres_memory import PostgresMemory",
    "asyncpg": "import asyncpg",
    "ours, no name of it": "import postgres_memory",
}
#: How many are purged at each size.
_PURGED = 1_000


async def starts(run: Run) -> None:
    """Import the package, and the driver it is built on, in new processes; open a pool in one that has imported all."""
    say("start")
    with TemporaryDirectory() as bytecode:
        for number in range(run.sizes.starts + 1):
            for name, statement in _STATEMENTS.items():
                try:
                    seconds = import_seconds(statement, bytecode)
                except subprocess.CalledProcessError as error:
                    run.outcome.fail("import", name, error.stderr[-300:])
                    continue
                if number:  # the first compiles, as installing does
                    run.outcome.add("import", name, p50=seconds)
    async with run.stage("open", "store", only=("ours",)) as stage:
        for number in range(run.sizes.starts + 1):
            for member in list(stage.members):
                opened = stage.attempt(member, "open", "ask", method="open_anew", times=1)
                if opened is not None and number:  # the first imports what opening needs
                    run.outcome.add("open", "ours", p50=opened["times"][0])


def import_seconds(statement: str, bytecode: str) -> float:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _IMPORT.format(statement=statement)]
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(ran.stdout)


async def resident(run: Run) -> None:
    """What a process of its own holds while it loads much, and whether it holds more after many calls."""
    say("client memory")
    async with _alone(run, "bulk, resident") as member:
        if member is not None:
            held = member("ask", method="bulk_resident", count=run.sizes.bulk_resident)
            run.outcome.note("bulk, resident", "ours", **held)
    async with _alone(run, "leak") as member:
        if member is not None:
            held = member("ask", method="mixed", calls=run.sizes.mixed, samples=20)
            run.outcome.note("leak", "ours", **held)


@asynccontextmanager
async def _alone(run: Run, workload: str) -> AsyncIterator[Member | None]:
    """Give a process that did nothing yet, on a new database, or none where there can be none; note what fails."""
    member = None
    try:
        member = await _engaged(run)
    except ContestantError as failed:
        run.outcome.fail(workload, "ours", str(failed))
    try:
        yield member
        if member is not None:
            member("close")
    except ContestantError as failed:
        run.outcome.fail(workload, "ours", str(failed))
    finally:
        if member is not None:
            member.dismiss()


async def _engaged(run: Run) -> Member:
    name = await run.databases.make("alone", migrated=True)
    member = run.crew.engage("ours")
    try:
        member("open", dsn=run.databases.dsn_of(name))
        member("enter", place="alone")
    except BaseException:
        member.dismiss()
        raise
    return member


async def growth(run: Run) -> None:
    """The cost of a call at more and more memories."""
    for count in run.sizes.growth:
        say(f"growth, {count:,}")
        async with run.stage("growth", "near", only=("ours", "FLOOR")) as stage:
            stage.each("enter", place="growth", near=True)
            stage.each("fill", first=0, count=count)
            for verb in ("search", "near", "filtered", "find", "store"):
                if verb == "near":  # without an index before: so FLOOR's search is exact
                    stage.each("index")
                    await stage.tidy()
                calls = run.sizes.calls if verb in ("find", "store") else run.sizes.slow_calls
                for member in list(stage.members):
                    for number in (0, 1):
                        block = stage.attempt(
                            member,
                            "growth",
                            "block",
                            verb=verb,
                            first=number * calls,
                            count=calls,
                            topic="hundredth",
                        )
                        if block is not None and number:
                            run.outcome.add_block(f"growth {verb}, {count:,}", member.name, block)
            stage.each("ask", only=("ours",), method="expire", count=min(_PURGED, count // 10))
            for member in list(stage.members):
                if member.name == "ours":
                    purged = stage.attempt(member, "growth", "ask", method="purge")
                    if purged is not None:
                        run.outcome.add(f"growth purge, {count:,}", "ours", p50=purged["seconds"])
