"""What a run found out, as JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Rounds = dict[str, list[float]]


@dataclass(slots=True)
class Outcome:
    """``rounds[workload][contestant][metric]`` holds a value for each round: seconds, or a count for each second.

    ``facts[workload][contestant]`` holds what is no time: how much was found, megabytes. ``failures`` says by workload
    and contestant what could not be measured, ``absent`` which contestants are not there.
    """

    environment: dict[str, Any]
    sizes: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, dict[str, Rounds]] = field(default_factory=dict)
    facts: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, workload: str, contestant: str, **metrics: float) -> None:
        """Add what a round gave."""
        rounds = self.rounds.setdefault(workload, {}).setdefault(contestant, {})
        for metric, value in metrics.items():
            rounds.setdefault(metric, []).append(value)

    def add_block(self, workload: str, contestant: str, block: dict[str, Any]) -> None:
        """Add a block of calls: how long half of them took at most, and how many there were in a second."""
        times = sorted(block["times"])
        self.add(
            workload,
            contestant,
            p50=statistics.median(times),
            p99=times[min(len(times) - 1, int(0.99 * len(times)))],
            rate=len(times) / block["seconds"],
        )

    def note(self, workload: str, contestant: str, **facts: Any) -> None:
        self.facts.setdefault(workload, {}).setdefault(contestant, {}).update(facts)

    def fail(self, workload: str, contestant: str, reason: str) -> None:
        self.failures.setdefault(workload, {})[contestant] = reason

    def median(self, workload: str, contestant: str, metric: str) -> float | None:
        """Return the median over the rounds, None where nothing was measured."""
        values = self.rounds.get(workload, {}).get(contestant, {}).get(metric)
        return statistics.median(values) if values else None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Outcome:
        return cls(**json.loads(path.read_text(encoding="utf-8")))
