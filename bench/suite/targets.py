"""The targets, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contestants import peers

from suite.outcome import Outcome
from suite.sizes import Sizes
from suite.texts import SHARES

PASS, SHORT, MISSING = "PASS", "short", "not measured"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the table; ``ratio`` is ours by what it is compared with, or ours itself where that is a number."""

    workload: str
    against: str
    ratio: float | None
    target: str
    verdict: str
    why: str = ""


def verdicts(outcome: Outcome, sizes: Sizes) -> list[Verdict]:
    """Judge a run."""
    return [*_stores(outcome), *_searches(outcome, sizes), *_filters(outcome, sizes), *_rest(outcome, sizes)]


def _stores(outcome: Outcome) -> Iterator[Verdict]:
    yield at_most(outcome, "store, 1 client", "SAME", 1.10)
    yield at_most(outcome, "store, 1 client", "FLOOR", 1.5)
    yield ahead(outcome, "store, 1 client")
    for tasks, than_same in ((16, 1.3), (64, 1.5)):
        workload = f"store, {tasks} tasks"
        yield at_least(outcome, workload, "SAME", than_same)
        yield at_least(outcome, workload, "FLOOR", 1.0)
        yield ahead(outcome, workload, "rate")
    yield at_least(outcome, "bulk", "LIMIT", 0.9)
    yield at_least(outcome, "bulk", "FLOOR", 0.5)
    yield ahead(outcome, "bulk", "rate")


def _searches(outcome: Outcome, sizes: Sizes) -> Iterator[Verdict]:
    for count in sizes.exact:
        yield at_most(outcome, f"search exact, {count:,}", "FLOOR", 1.10)
        yield ahead(outcome, f"search exact, {count:,}")
    many = f"search in one of {sizes.namespaces:,} namespaces of {sizes.in_namespace:,}"
    yield at_most(outcome, many, "SAME", 1.10)
    yield below(outcome, many, "ours", 0.002)
    for count in sizes.near:
        workload = f"search HNSW, {count:,}"
        yield at_most(outcome, workload, "FLOOR", 1.10)
        yield found(outcome, workload)
        yield ahead(outcome, workload)


def _filters(outcome: Outcome, sizes: Sizes) -> Iterator[Verdict]:
    for count in sizes.near:
        for share in SHARES.values():
            workload = f"filter {100 * share:g} %, {count:,}"
            if count <= 100_000:
                yield found(outcome, workload)
                yield fastest_that_finds(outcome, workload)
                yield ahead(outcome, workload)
        if count <= 100_000:
            yield of_legs(outcome, f"recall, {count:,}")


def _rest(outcome: Outcome, sizes: Sizes) -> Iterator[Verdict]:
    for workload in ("get", "find, 50", "relate", f"related, depth 3, {sizes.edges:,}"):
        yield at_most(outcome, workload, "SAME", 1.15)
    for verb in ("store", "search", "recall"):
        yield at_most(outcome, f"{verb} as a principal", "backend", 1.6, ours="principal")
    yield get_as_principal(outcome)
    yield at_most(outcome, "import", "asyncpg", 1.2)
    yield below(outcome, "open", "ours", 0.060)
    yield resident(outcome, sizes)
    yield leak(outcome)


def missing(outcome: Outcome, workload: str, against: str, target: str, *names: str) -> Verdict:
    """Say why something was not measured."""
    failures = outcome.failures.get(workload, {})
    why = [f"{name}: {failures[name]}" for name in names if name in failures]
    why += [f"{name}: {outcome.absent[name]}" for name in names if name in outcome.absent]
    return Verdict(workload, against, None, target, MISSING, "; ".join(why) or "left out of this run")


def judged(
    workload: str, against: str, ratio: float, target: str, holds: Callable[[float], bool], why: str = ""
) -> Verdict:
    return Verdict(workload, against, ratio, target, PASS if holds(ratio) else SHORT, why)


def at_most(outcome: Outcome, workload: str, against: str, most: float, *, ours: str = "ours") -> Verdict:
    """How many times as long ours takes."""
    mine, other = outcome.median(workload, ours, "p50"), outcome.median(workload, against, "p50")
    target = f"≤ {most:g} x"
    if mine is None or other is None:
        return missing(outcome, workload, against, target, ours, against)
    return judged(workload, against, mine / other, target, lambda ratio: ratio <= most)


def at_least(outcome: Outcome, workload: str, against: str, least: float) -> Verdict:
    """How many times as much ours does in a second."""
    mine, other = outcome.median(workload, "ours", "rate"), outcome.median(workload, against, "rate")
    target = f"≥ {least:g} x the rate"
    if mine is None or other is None:
        return missing(outcome, workload, against, target, "ours", against)
    return judged(workload, against, mine / other, target, lambda ratio: ratio >= least)


def below(outcome: Outcome, workload: str, ours: str, seconds: float) -> Verdict:
    mine = outcome.median(workload, ours, "p50")
    target = f"≤ {1e3 * seconds:g} ms"
    if mine is None:
        return missing(outcome, workload, "the clock", target, ours)
    return judged(workload, "the clock", 1e3 * mine, target, lambda value: value <= 1e3 * seconds)


def ahead(outcome: Outcome, workload: str, metric: str = "p50") -> Verdict:
    """Ours beside the best peer that does the same work: durably, and where there is something to find, finding it."""
    mine = outcome.median(workload, "ours", metric)
    facts = outcome.facts.get(workload, {})
    values = {
        name: value
        for name in peers()
        if name != "flux"  # it holds memories in RAM
        and (value := outcome.median(workload, name, metric)) is not None
        and facts.get(name, {}).get("recall", 1.0) >= 0.99
    }
    if mine is None or not values:
        some = [name for name in peers() if outcome.median(workload, name, metric) is not None]
        verdict = missing(outcome, workload, "peers", "ahead", "ours", *peers())
        if mine is not None and some:
            return Verdict(workload, "peers", None, "ahead", PASS, "no peer finds 99 %")
        return verdict
    best = (max if metric == "rate" else min)(values, key=lambda name: values[name])
    ratio = mine / values[best]
    better: Callable[[float], bool] = (lambda r: r >= 1) if metric == "rate" else (lambda r: r <= 1)
    return judged(workload, f"best peer ({best})", ratio, "ahead", better)


def found(outcome: Outcome, workload: str) -> Verdict:
    """Whether ours finds 99 % of the nearest, and as many rows as there are."""
    facts = outcome.facts.get(workload, {}).get("ours")
    if facts is None:
        return missing(outcome, workload, "the truth", "recall ≥ 0.99, all rows", "ours")
    why = f"{facts['rows']:.2f} rows of {facts['expected']:g}"
    whole = facts["rows"] >= facts["expected"]
    return judged(
        workload, "the truth", facts["recall"], "recall ≥ 0.99, all rows", lambda r: r >= 0.99 and whole, why
    )


def fastest_that_finds(outcome: Outcome, workload: str) -> Verdict:
    """Ours beside the fastest of FLOOR's two ways that finds 99 % itself."""
    ways = {"by GIN": workload, "by HNSW": f"{workload}, by HNSW"}
    times = {
        way: time
        for way, name in ways.items()
        if (time := outcome.median(name, "FLOOR", "p50")) is not None
        and outcome.facts.get(name, {}).get("FLOOR", {}).get("recall", 0.0) >= 0.99
    }
    mine, target = outcome.median(workload, "ours", "p50"), "≤ 1.2 x"
    if mine is None or not times:
        return missing(outcome, workload, "FLOOR", target, "ours", "FLOOR")
    best = min(times, key=lambda way: times[way])
    return judged(workload, f"FLOOR {best}", mine / times[best], target, lambda ratio: ratio <= 1.2)


def of_legs(outcome: Outcome, workload: str) -> Verdict:
    legs = [outcome.median(f"{workload}: {leg}", "FLOOR", "p50") for leg in ("words", "vectors")]
    mine, target = outcome.median(workload, "ours", "p50"), "≤ 1.5 x"
    known = [leg for leg in legs if leg is not None]
    if mine is None or len(known) < 2:
        return missing(outcome, workload, "FLOOR's two legs", target, "ours", "FLOOR")
    return judged(workload, "FLOOR's two legs", mine / sum(known), target, lambda ratio: ratio <= 1.5)


def get_as_principal(outcome: Outcome) -> Verdict:
    workload, target = "get as a principal", "≤ 1.6 x + 2 round trips"
    mine, backend = (outcome.median(workload, name, "p50") for name in ("principal", "backend"))
    ping = outcome.median("ping", "round trip", "p50")
    if mine is None or backend is None or ping is None:
        return missing(outcome, workload, "backend", target, "ours")
    most = 1.6 + 2 * ping / backend
    return judged(
        workload,
        "backend",
        mine / backend,
        target,
        lambda ratio: ratio <= most,
        f"that is {most:.2f} x",
    )


def resident(outcome: Outcome, sizes: Sizes) -> Verdict:
    workload, target = "bulk, resident", "peak ≤ 150 MB"
    facts = outcome.facts.get(workload, {}).get("ours")
    if facts is None:
        return missing(outcome, workload, "megabytes", target, "ours")
    why = f"{sizes.bulk_resident:,} memories"
    return judged(workload, "megabytes", facts["peak"], target, lambda value: value <= 150, why)


def leak(outcome: Outcome) -> Verdict:
    """After the first tenth of the calls the process holds the same, ± 5 %."""
    facts = outcome.facts.get("leak", {}).get("ours")
    if facts is None:
        return missing(outcome, "leak", "itself", "± 5 %", "ours")
    held = facts["resident"]
    settled = held[len(held) // 10 - 1 if len(held) >= 10 else 0]
    worst = max((value / settled for value in held[len(held) // 10 :]), key=lambda share: abs(share - 1))
    return judged("leak", "itself", worst, "± 5 %", lambda share: abs(share - 1) <= 0.05)
