"""The benchmark suite: ours beside hand-written SQL and its peers, in one run on one machine, judged by the targets.

python bench/run.py                              # under 15 minutes; make bench
python bench/run.py --quick                      # under 3
python bench/run.py --full                       # to a million memories, as long as it takes
python bench/run.py --only ours,SAME,FLOOR --workloads stores,bulk
python bench/run.py --report bench/results/latest/outcome.json
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import platform
import sys
import time
from pathlib import Path

import asyncpg
from contestants import CONTESTANTS
from suite import resources, sizes, tables, workloads
from suite.crew import Crew
from suite.outcome import Outcome
from suite.plots import draw
from suite.server import Databases, server
from suite.staging import Run, say
from suite.targets import verdicts

RESULTS = Path(__file__).parent / "results"
SIZES = {"quick": sizes.QUICK, "default": sizes.DEFAULT, "full": sizes.FULL, "tiny": sizes.TINY}
WORKLOADS = {
    "stores": workloads.stores,
    "bulk": workloads.bulk,
    "exact": workloads.exact_searches,
    "namespaces": workloads.namespaces,
    "index": workloads.by_index,
    "reads": workloads.reads,
    "principals": workloads.principals,
    "starts": resources.starts,
    "resident": resources.resident,
    "growth": resources.growth,
}


async def measured(arguments: argparse.Namespace) -> Outcome:
    """Run the workloads that are asked for, and return what was found out."""
    chosen = SIZES[arguments.size]
    begin = time.monotonic()
    async with server(autovacuum="off") as dsn:
        outcome = Outcome(await environment(dsn, arguments.size), dataclasses.asdict(chosen))
        crew = Crew(arguments.only, arguments.out / "logs")
        databases = Databases(dsn)
        outcome.absent = crew.absent
        for member in crew.members:
            outcome.versions[member.name], outcome.notes[member.name] = member.versions, member.note
        try:
            for name in arguments.workloads:
                await WORKLOADS[name](Run(crew, databases, chosen, outcome))
                outcome.write(arguments.out / "outcome.json")  # what is known is kept, whatever comes
        finally:
            crew.dismiss()
            await databases.drop_all()
    outcome.environment["minutes"] = round((time.monotonic() - begin) / 60, 1)
    outcome.environment["load at the end"] = round(os.getloadavg()[0], 1)
    return outcome


async def environment(dsn: str, size: str) -> dict[str, object]:
    connection = await asyncpg.connect(dsn)
    try:
        shown = {
            name: await connection.fetchval(f"SHOW {name}")
            for name in ("server_version", "shared_buffers", "fsync", "synchronous_commit")
        }
        vector = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        shown["pgvector"] = await connection.fetchval(vector)
    finally:
        await connection.close()
    cores, load = os.cpu_count(), os.getloadavg()[0]
    machine = f"{platform.machine()}, {cores} cores, load {load:.1f} at the beginning"
    return {"size": size, "python": platform.python_version(), "machine": machine, **shown}


def told(outcome: Outcome, out: Path) -> bool:
    """Write and print the report; say whether all that was tried worked."""
    chosen = dataclasses.replace(
        sizes.DEFAULT, **{name: _tuples(value) for name, value in outcome.sizes.items()}
    )
    text = tables.report(outcome, verdicts(outcome, chosen))
    outcome.write(out / "outcome.json")
    (out / "report.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    try:
        drawn = ", ".join(str(path) for path in draw(outcome, out))
    except ImportError:
        drawn = "no pictures: matplotlib is not installed"
    say(f"{out / 'outcome.json'}; {drawn}")
    return not outcome.failures


def _tuples(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_mutually_exclusive_group()
    for name in SIZES:
        if name != "default":
            kinds.add_argument(f"--{name}", dest="size", action="store_const", const=name)
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="contestants, with commas between")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="workloads, with commas between")
    parser.add_argument("--out", type=Path, default=RESULTS / "latest", help="the folder of the results")
    parser.add_argument("--report", type=Path, help="judge and draw an earlier outcome again")
    parser.set_defaults(size="default")
    given = parser.parse_args(arguments)
    for option, known in (("only", CONTESTANTS), ("workloads", WORKLOADS)):
        names = getattr(given, option).split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            parser.error(f"--{option}: there is no {', '.join(unknown)}, only {', '.join(known)}")
        setattr(given, option, [name for name in known if name in names])
    return given


def main(arguments: list[str]) -> int:
    given = parsed(arguments)
    if given.report is not None:
        return not told(Outcome.read(given.report), given.report.parent)
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    return not told(asyncio.run(measured(given)), given.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
