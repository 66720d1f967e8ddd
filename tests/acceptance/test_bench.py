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
