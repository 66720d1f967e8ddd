"""The benchmark suite runs, and says what it found out: not how fast anything is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import Server

RUN = Path(__file__).parent.parent.parent / "bench" / "run.py"
WORKLOADS = {"store, 1 client", "store, 16 tasks", "store, 64 tasks", "search exact, 200"}


#: Runs the suite with a contestant whose process ends.
DYING = """
import sys
import run
class Dying(run.Crew):
    def __init__(self, *given):
        super().__init__(*given)
        self.members[0]._process.kill()
run.Crew = Dying
sys.exit(run.main(sys.argv[1:]))
"""


def run(
    server: Server, out: Path, *options: str, program: tuple[str, ...] = (str(RUN),)
) -> subprocess.CompletedProcess[str]:
    """Run the suite at the smallest sizes, on the server of the tests."""
    command = [sys.executable, *program, "--tiny", "--out", str(out), *options]
    environment = os.environ | {"POSTGRES_MEMORY_BENCH_DSN": server.dsn}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=RUN.parent
    )


@pytest.fixture
def outcome(server: Server, tmp_path: Path) -> tuple[dict[str, Any], str]:
    """What the suite wrote, and printed."""
    done = run(server, tmp_path, "--only", "ours,SAME,FLOOR", "--workloads", "stores,exact")
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "outcome.json").read_text()), done.stdout


def test_it_measures_all_that_take_part(outcome: tuple[dict[str, Any], str]) -> None:
    found, report = outcome
    assert found["rounds"].keys() == WORKLOADS
    for workload, contestants in found["rounds"].items():
        assert contestants.keys() == {"ours", "SAME", "FLOOR"}, workload
        for metrics in contestants.values():
            assert metrics.keys() == {"p50", "p99", "rate"}
            assert all(len(values) == 1 and values[0] > 0 for values in metrics.values())
    assert {name: facts["recall"] for name, facts in found["facts"]["search exact, 200"].items()} == {
        "ours": 1.0,
        "SAME": 1.0,
        "FLOOR": 1.0,
    }
    assert found["failures"] == {}
    assert found["versions"].keys() == {"ours", "SAME", "FLOOR"}
    assert found["environment"]["size"] == "tiny"
    (line,) = (one for one in report.splitlines() if "store, 1 client" in one and "≤ 1.1 x" in one)
    assert ("PASS" in line) != ("short" in line)
    assert "not measured" in next(one for one in report.splitlines() if one.startswith("| bulk"))


def test_what_cannot_be_had_is_said_by_name(server: Server, tmp_path: Path) -> None:
    if (RUN.parent.parent / ".venv-bench-peers").exists():
        pytest.skip("the environments of the peers are there")
    done = run(server, tmp_path, "--only", "mem0", "--workloads", "exact")
    found = json.loads((tmp_path / "outcome.json").read_text())
    assert "make bench-peers" in found["absent"]["mem0"]
    assert "- not there: mem0: " in done.stdout


def test_what_fails_is_said_and_ends_badly(server: Server, tmp_path: Path) -> None:
    options = ("--only", "FLOOR", "--workloads", "exact")
    done = run(server, tmp_path, *options, program=("-c", DYING))
    found = json.loads((tmp_path / "outcome.json").read_text())
    assert done.returncode == 1
    assert "its process ended" in found["failures"]["search exact, 200"]["FLOOR"]
    assert "- FAILED: search exact, 200, FLOOR: open: its process ended" in done.stdout
    (line, *_) = (one for one in done.stdout.splitlines() if one.startswith("| search exact, 200"))
    assert "not measured" in line
    assert "FLOOR: open: its process ended" in line


def judged(folder: Path, rounds: dict[str, Any], facts: dict[str, Any] | None = None) -> dict[str, str]:
    """Have the suite judge an outcome; return the verdict of each workload beside each contestant."""
    sizes = {"exact": [1_000], "near": [1_000], "namespaces": 2, "in_namespace": 3, "edges": 4}
    outcome = {"environment": {}, "sizes": sizes, "rounds": rounds, "facts": facts or {}}
    (folder / "outcome.json").write_text(json.dumps(outcome))
    command = [sys.executable, str(RUN), "--report", str(folder / "outcome.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split("|") for line in done.stdout.partition("## Medians")[0].splitlines() if "|" in line]
    return {f"{cells[1].strip()} / {cells[2].strip()}": cells[5].strip() for cells in lines}


def calls(**seconds: float) -> dict[str, dict[str, list[float]]]:
    return {name.replace("_", "-"): {"p50": [value, value, 9.0]} for name, value in seconds.items()}


def test_medians_are_judged_by_the_targets(tmp_path: Path) -> None:
    found = {"recall": 1.0, "rows": 5.0, "expected": 5}
    verdicts = judged(
        tmp_path,
        {
            "store, 1 client": calls(ours=1.09, SAME=1.0, FLOOR=0.7, mem0=1.2, flux=0.1),
            "store, 16 tasks": {name: {"rate": [rate]} for name, rate in (("ours", 130), ("SAME", 99))},
            "search HNSW, 1,000": calls(ours=1.0, FLOOR=0.95, mem0=0.5, strands=1.1),
            "filter 1 %, 1,000": calls(ours=1.0, FLOOR=0.5),
            "filter 1 %, 1,000, by HNSW": calls(FLOOR=0.9),
            "recall, 1,000": calls(ours=3.0),
            "recall, 1,000: words": calls(FLOOR=1.5),
            "recall, 1,000: vectors": calls(FLOOR=0.4),
            "get as a principal": calls(principal=2.0, backend=1.0),
            "ping": {"round trip": {"p50": [0.3]}},
        },
        {
            "search HNSW, 1,000": {"ours": found, "mem0": found | {"recall": 0.9}, "strands": found},
            "filter 1 %, 1,000": {"ours": found | {"rows": 4.9}, "FLOOR": found | {"recall": 0.5}},
            "filter 1 %, 1,000, by HNSW": {"FLOOR": found},
            "leak": {"ours": {"resident": [*[80.0] * 2, *[100.0] * 17, 104.0]}},
            "bulk, resident": {"ours": {"peak": 151.0}},
        },
    )
    assert verdicts["store, 1 client / SAME"] == "PASS"  # 1.09
    assert verdicts["store, 1 client / FLOOR"] == "short"  # 1.56
    assert verdicts["store, 1 client / best peer (mem0)"] == "PASS"  # flux keeps nothing
    assert verdicts["store, 16 tasks / SAME"] == "PASS"  # 1.31
    assert verdicts["store, 16 tasks / FLOOR"] == "not measured"
    assert verdicts["search HNSW, 1,000 / FLOOR"] == "PASS"  # 1.05
    assert verdicts["search HNSW, 1,000 / best peer (strands)"] == "PASS"  # mem0 finds too little
    assert verdicts["filter 1 %, 1,000 / the truth"] == "short"  # a row is missing
    assert verdicts["filter 1 %, 1,000 / FLOOR by HNSW"] == "PASS"  # the other way finds too little
    assert verdicts["recall, 1,000 / FLOOR's two legs"] == "short"  # 3.0 of 1.9
    assert verdicts["get as a principal / backend"] == "PASS"  # 2.0 of 1.6 + 2 × 0.3
    assert verdicts["leak / itself"] == "short"  # 1.3 of what it held after a tenth
    assert verdicts["bulk, resident / megabytes"] == "short"
    assert verdicts["bulk / LIMIT"] == "not measured"
