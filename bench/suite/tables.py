"""What a person reads of a run."""

from __future__ import annotations

from collections.abc import Sequence

from contestants import CONTESTANTS, MEASURES, peers

from suite.outcome import Outcome
from suite.targets import Verdict

#: Workloads of which the rate is told, not how long a call takes.
_RATES = ("store, 16 tasks", "store, 64 tasks", "bulk")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown whose columns stand under each other."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, rows)])


def of_targets(verdicts: Sequence[Verdict]) -> str:
    """Return each target with what became of it."""
    rows = [
        (
            one.workload,
            one.against,
            "" if one.ratio is None else f"{one.ratio:,.2f}",
            one.target,
            one.verdict,
            one.why,
        )
        for one in verdicts
    ]
    return table(("workload", "beside", "ours", "target", "verdict", ""), rows)


def of_measurements(outcome: Outcome) -> str:
    """Return what each contestant took, workload by workload; a dash is what it does not do or was not told to."""
    workloads = [name for name in outcome.rounds if not name.startswith("growth")]
    special = sorted(
        {name for workload in workloads for name in outcome.rounds[workload]} - set(CONTESTANTS),
    )
    present = [name for name in (*MEASURES, *peers()) if name in outcome.versions]
    rows = [
        (workload, *(_cell(outcome, workload, name) for name in present))
        for workload in workloads
        if any(name in CONTESTANTS for name in outcome.rounds[workload])
    ]
    told = table(("ms, or calls/s", *present), rows)
    others = [
        (workload, name, _cell(outcome, workload, name))
        for workload in workloads
        for name in special
        if name in outcome.rounds[workload]
    ]
    return told + ("\n\n" + table(("workload", "as", "ms"), others) if others else "")


def _cell(outcome: Outcome, workload: str, name: str) -> str:
    if name in outcome.failures.get(workload, {}):
        return "failed"
    rate = workload in _RATES
    value = outcome.median(workload, name, "rate" if rate else "p50")
    if value is None:
        return "-"
    recall = outcome.facts.get(workload, {}).get(name, {}).get("recall")
    found = "" if recall is None else f" ({recall:.3f})"
    return f"{value:,.0f}/s" if rate else f"{1e3 * value:.3f}{found}"


def of_growth(outcome: Outcome) -> str:
    """Return what a call takes at more and more memories."""
    verbs, counts = axes(outcome)
    rows = [
        (verb, name, *(_cell(outcome, f"growth {verb}, {count:,}", name) for count in counts))
        for verb in verbs
        for name in ("ours", "FLOOR")
        if any(name in outcome.rounds.get(f"growth {verb}, {count:,}", {}) for count in counts)
    ]
    return table(("ms at", "", *(f"{count:,}" for count in counts)), rows) if rows else ""


def axes(outcome: Outcome) -> tuple[list[str], list[int]]:
    """Return the verbs and sizes of which growth was measured."""
    pairs = [
        name.removeprefix("growth ").split(", ", 1) for name in outcome.rounds if name.startswith("growth ")
    ]
    counts = sorted({int(count.replace(",", "")) for _, count in pairs})
    return list(dict.fromkeys(verb for verb, _ in pairs)), counts


def of_gaps(outcome: Outcome) -> str:
    """Return who is not there and what failed, and why."""
    lines = [f"- not there: {name}: {why}" for name, why in outcome.absent.items()]
    lines += [
        f"- FAILED: {workload}, {name}: {why}"
        for workload, names in outcome.failures.items()
        for name, why in names.items()
    ]
    return "\n".join(lines) or "- none"


def report(outcome: Outcome, verdicts: Sequence[Verdict]) -> str:
    """Return all that a run found out."""
    counts = {
        kind: sum(one.verdict == kind for one in verdicts) for kind in ("PASS", "short", "not measured")
    }
    parts = {
        f"Targets: {', '.join(f'{count} {kind}' for kind, count in counts.items())}": of_targets(verdicts),
        "Medians of the rounds (recall in parentheses)": of_measurements(outcome),
        "Growth": of_growth(outcome),
        "Gaps": of_gaps(outcome),
        "Contestants": "\n".join(
            f"- {name} ({outcome.versions[name]}): {note}" for name, note in outcome.notes.items()
        ),
        "Environment": "\n".join(f"- {name}: {value}" for name, value in outcome.environment.items()),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items() if text)
