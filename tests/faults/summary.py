"""What the fault suite did, at the end of a run."""

from __future__ import annotations

import pytest


def write_summary(reporter: pytest.TerminalReporter) -> None:
    """Print what each campaign did."""
    rows = [
        (report.nodeid.rpartition("::")[2].removeprefix("test_"), value)
        for reports in reporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "campaign" and report.when == "call"
    ]
    if not rows:
        return
    columns = ("faults", "acknowledged", "lost", "double", "refused", "unknown")
    reporter.section("faults")
    reporter.write_line(f"{'kind':<44}" + "".join(f"{column:>14}" for column in columns))
    for kind, told in sorted(rows):
        reporter.write_line(f"{kind:<44}" + "".join(f"{told[column]:>14}" for column in columns))
    for kind, told in sorted(rows):
        if "first write" in told:
            reporter.write_line(f"{kind}: {told['first write']}")
    totals = {column: sum(told[column] for _, told in rows) for column in columns}
    reporter.write_line(
        f"{f'{len(rows)} kinds':<44}" + "".join(f"{totals[column]:>14}" for column in columns)
    )
