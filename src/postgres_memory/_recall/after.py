"""What may follow the statement of a recall: another judge of the first hits, and a choice that avoids repetition."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from operator import mul
from typing import Any

from .._validation import kind_of
from ..errors import InvalidTypeError, InvalidValueError
from ..recall_records import Hit

#: Gives each of some contents a score for a query, larger is better: a cross-encoder, a model, any judgement.
Reranker = Callable[[str, list[str]], Awaitable[Sequence[float]]]


def check_reranker(reranker: object) -> None:
    """Refuse what cannot be called."""
    if reranker is not None and not callable(reranker):
        raise InvalidTypeError("reranker", f"must be an async callable, not {kind_of(reranker)}")


def check_diversity(value: object) -> float:
    """Return how much variety counts, 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError("diversity", f"must be a number, not {kind_of(value)}")
    if not 0 <= value <= 1:
        raise InvalidValueError("diversity", f"must be from 0 to 1, not {value!r}")
    return float(value)


async def rerank(query: str, hits: list[Hit], reranker: Reranker) -> list[Hit]:
    """Return the hits in the order of the scores that ``reranker`` gives; equal ones stay in the order they had.

    The score is the reranker's from then on; the parts, if any, are those that led here, and the difference.
    """
    scores = [_score(value) for value in await reranker(query, [hit.record.content for hit in hits])]
    if len(scores) != len(hits):
        raise InvalidValueError(
            "reranker", f"must return a score for each of {len(hits)} contents, not {len(scores)}"
        )
    judged = [
        replace(hit, score=score, parts={**hit.parts, "reranker": score - hit.score} if hit.parts else {})
        for hit, score in zip(hits, scores, strict=True)
    ]
    return sorted(judged, key=lambda hit: -hit.score)


def _score(value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError("reranker", f"must return numbers, not {kind_of(value)}") from error
    if not math.isfinite(score):
        raise InvalidValueError("reranker", f"must return finite numbers, not {score!r}")
    return score


def diversify(hits: Sequence[Hit], diversity: float, limit: int) -> list[Hit]:
    """Choose hits one by one, by their score and by how little they repeat what was chosen before.

    Maximal marginal relevance (Carbonell and Goldstein 1998), with the cosine of the hash embeddings as what repeats,
    and the scores scaled to 0 … 1. Scores stay what they were; the order is that of the choice.
    """
    if not hits:
        return []
    low, high = min(hit.score for hit in hits), max(hit.score for hit in hits)
    left = list(range(len(hits)))
    repeated = [0.0] * len(hits)
    chosen: list[int] = []
    while left and len(chosen) < limit:
        best = max(
            left,
            key=lambda place: (
                (1 - diversity) * _scaled(hits[place].score, low, high) - diversity * repeated[place],
                -place,
            ),
        )
        left.remove(best)
        chosen.append(best)
        for place in left:
            repeated[place] = max(repeated[place], _cosine(hits[best], hits[place]))
    return [hits[place] for place in chosen]


def _scaled(score: float, low: float, high: float) -> float:
    return (score - low) / (high - low) if high > low else 1.0


def _cosine(one: Hit, other: Hit) -> float:
    return float(sum(map(mul, one.record.embedding or (), other.record.embedding or ())))
