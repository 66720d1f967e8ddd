"""The ranking of `recall` without a database: every memory looked at, in Python, over the terms that SQL gives."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from postgres_memory._recall.recall import ANSWER, THREAD_RARITY, WINDOW
from postgres_memory._sql.pulling import FIRST
from postgres_memory._sql.scoring import NEARBY
from postgres_memory.ranking import Ranking


@dataclass(frozen=True)
class Held:
    """A memory as the ranking sees it: its terms, its thread and how many of the thread came before it."""

    id: str
    content: str
    terms: frozenset[str]
    thread: str | None
    position: int
    subject: str | None = None

    @property
    def asks(self) -> bool:
        return re.search(r"[?？؟]\s*$", self.content) is not None


@dataclass(frozen=True)
class Related:
    """A relation between memories of the corpus."""

    source: str
    target: str
    kind: str
    confidence: float


def rank(
    memories: Sequence[Held], words: Sequence[frozenset[str]], names: Sequence[str], ranking: Ranking
) -> dict[str, float]:
    """Return the score of every memory that has something of the query."""
    at: dict[tuple[str | None, int], Held]
    at = {(memory.thread, memory.position): memory for memory in memories if memory.thread is not None}
    groups = list(dict.fromkeys(group for group in words if group))
    holders = [[memory for memory in memories if memory.terms & group] for group in groups]
    weights = _weights(memories, holders, ranking)
    score: dict[str, float] = defaultdict(float)
    for weight, found in zip(weights, holders, strict=True):
        for id_, share in _shares(at, found, ranking).items():
            score[id_] += weight * share / sum(weights)
    by_id = {memory.id: memory for memory in memories}
    named = {subject for id_ in score if (subject := by_id[id_].subject) is not None and subject in names}
    subjects = {one for one in named if not any(one != other and one in other for other in named)}
    for id_ in score:
        memory = by_id[id_]
        score[id_] *= ranking.question if memory.asks else 1
        score[id_] *= ranking.subject if subjects == {memory.subject} else 1
    shaped = dict(score)
    for id_ in score:
        memory = by_id[id_]
        if memory.thread is not None:
            nearby = (at.get((memory.thread, memory.position + step)) for step in range(-NEARBY, NEARBY + 1))
            score[id_] += ranking.thread * max(
                shaped[near.id] for near in nearby if near and near.id in shaped
            )
    return dict(score)


def relate(
    memories: Sequence[Held], score: dict[str, float], relations: Sequence[Related], weight: float
) -> dict[str, float]:
    """Return the scores with what relations add: the first hits pull in neighbours, and lose by contradictions."""
    order = {memory.id: place for place, memory in enumerate(memories)}
    first = sorted(score, key=lambda id_: (-round(score[id_], 10), order[id_]))[:FIRST]
    gains: dict[str, float] = defaultdict(float)
    losses: dict[str, float] = defaultdict(float)
    for one in relations:
        for near, other in ((one.source, one.target), (one.target, one.source)):
            if near in first and one.kind in ("supports", "extends") and other in order:
                gains[other] = max(gains[other], one.confidence * score[near])
        if one.target in first and one.kind == "contradicts":
            losses[one.target] = max(losses[one.target], one.confidence)
    with_relations = dict(score)
    for id_, gain in gains.items():
        with_relations[id_] = with_relations.get(id_, 0.0) + weight * gain
    for id_, confidence in losses.items():
        with_relations[id_] -= min(weight * confidence, 1.0) * score[id_]
    return with_relations


def _weights(memories: Sequence[Held], holders: list[list[Held]], ranking: Ranking) -> list[float]:
    threads = {memory.thread for found in holders for memory in found} - {None}
    weights = []
    for found in holders:
        weight = _rarity(len(memories), len(found))
        if threads and ranking.context:
            weight += THREAD_RARITY * _rarity(len(threads), len({memory.thread for memory in found} - {None}))
        weights.append(weight)
    return weights


def _shares(at: dict[tuple[str | None, int], Held], found: list[Held], ranking: Ranking) -> dict[str, float]:
    best: dict[str, float] = defaultdict(float)
    for holder in found:
        best[holder.id] = 1.0
        for distance, share in WINDOW.items() if ranking.context else ():
            near = at.get((holder.thread, holder.position + distance))
            if near is not None:
                counted = max(share, ANSWER) if distance == 1 and holder.asks else share
                best[near.id] = max(best[near.id], counted * ranking.context)
    return best


def _rarity(total: int, holding: int) -> float:
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))
