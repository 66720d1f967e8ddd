"""Pictures of a run: latency and throughput of each contestant, and growth."""

from __future__ import annotations

from pathlib import Path

from contestants import MEASURES

from suite.outcome import Outcome
from suite.tables import axes

_COLOURS = {"ours": "#d62728", "SAME": "#1f77b4", "FLOOR": "#2ca02c", "LIMIT": "#7f7f7f"}
_OTHER = "#c7b299"


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """Write the pictures and return where they are. Raises ImportError without matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    made = []
    for name, drawn in {
        "growth.png": _growth(pyplot, outcome),
        "latency.png": _over_n(pyplot, outcome, "p50", 1e3, "ms a call (median)"),
        "throughput.png": _bars(pyplot, outcome),
    }.items():
        if drawn is not None:
            drawn.savefig(folder / name, dpi=120, bbox_inches="tight")
            pyplot.close(drawn)
            made.append(folder / name)
    return made


def _growth(pyplot, outcome: Outcome):
    verbs, counts = axes(outcome)
    if len(counts) < 2:
        return None
    figure, places = pyplot.subplots(1, 2, figsize=(12, 5))
    for place, metric, factor, label in (
        (places[0], "p50", 1e3, "ms a call (median)"),
        (places[1], "rate", 1.0, "calls a second, one client"),
    ):
        for number, verb in enumerate(verbs):
            for name, style in (("ours", "-o"), ("FLOOR", ":x")):
                points = [
                    (count, factor * value)
                    for count in counts
                    if (value := outcome.median(f"growth {verb}, {count:,}", name, metric)) is not None
                ]
                if points:
                    place.plot(*zip(*points, strict=True), style, color=f"C{number}", label=f"{verb}, {name}")
        _scale(place, "memories", label)
    places[1].legend(
        *places[0].get_legend_handles_labels(), fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1)
    )
    figure.suptitle("Growth: the cost of a call at more and more memories")
    return figure


def _over_n(pyplot, outcome: Outcome, metric: str, factor: float, label: str):
    """Exact search and HNSW, by how many memories there are."""
    figure, places = pyplot.subplots(1, 2, figsize=(12, 5), sharey=True)
    drawn = False
    for place, kind in zip(places, ("search exact", "search HNSW"), strict=True):
        names = [
            name
            for workload in outcome.rounds
            if workload.startswith(kind)
            for name in outcome.rounds[workload]
        ]
        for name in dict.fromkeys(names):
            points = [
                (int(workload.removeprefix(f"{kind}, ").replace(",", "")), factor * value)
                for workload in outcome.rounds
                if workload.startswith(kind) and (value := outcome.median(workload, name, metric)) is not None
            ]
            if points:
                drawn = True
                style = "-o" if name in MEASURES else "--."
                place.plot(*zip(*points, strict=True), style, color=_COLOURS.get(name), label=name)
        place.set_title(kind)
        _scale(place, "memories", label)
        if names:
            place.legend(fontsize="small")
    return figure if drawn else None


def _bars(pyplot, outcome: Outcome):
    kinds = [name for name in ("store, 16 tasks", "store, 64 tasks", "bulk") if name in outcome.rounds]
    if not kinds:
        return None
    figure, places = pyplot.subplots(1, len(kinds), figsize=(4.5 * len(kinds), 5), squeeze=False)
    for place, workload in zip(places[0], kinds, strict=True):
        rates = {name: outcome.median(workload, name, "rate") or 0 for name in outcome.rounds[workload]}
        names = sorted(rates, key=lambda name: rates[name])
        colours = [_COLOURS.get(name, _OTHER) for name in names]
        place.barh(names, [rates[name] for name in names], color=colours)
        place.set_title(workload)
        place.set_xlabel("memories a second")
    figure.tight_layout()
    return figure


def _scale(place, x: str, y: str) -> None:
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_xlabel(x)
    place.set_ylabel(y)
    place.grid(alpha=0.3)
