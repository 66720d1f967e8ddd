"""`recall`: the memories that a query asks for, ranked by words, context and whatever else the ranking weighs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._record_checks import check_time
from .._validation import check_content, check_limit
from ..errors import InvalidTypeError, InvalidValueError
from ..filters import Filter, check_filter
from ..ranking import Ranking, check_ranking
from ..recall_records import Hit, Hits
from .question import read_question

if TYPE_CHECKING:
    from asyncpg import Record

#: How much a word counts that stands so many memories away in the thread.
WINDOW = {distance: 1 / (1 + abs(distance)) for distance in (1, 2, 3, 4, -1, -2, -3, -4)}
#: The share of a word that the memory just before asks with: an answer takes over the words of its question.
ANSWER = 1.0
#: How much the rarity of a word among threads counts beside its rarity among memories.
THREAD_RARITY = 1.0
#: How many blocks and how many memories are looked at closely for one that is returned, and at the least.
_BLOCKS, _CANDIDATES = (5, 50), (12, 120)
#: A limit from which everything that holds a word is looked at closely.
_LARGE_LIMIT = 500


async def recall(
    context: Context,
    query: str,
    *,
    limit: int,
    filter: Filter | Mapping[str, Any] | None,
    ranking: Ranking | str,
    min_score: float | None,
    exact: bool,
    as_of: datetime | None,
    explain: bool,
) -> Hits:
    """Check, split the query into words, rank in one statement."""
    from .._sql.predicates import prepare_filter
    from .._sql.recalling import recall_lexical

    text = check_content(query, "query", max_bytes=context.limits.content_bytes)
    at_most = check_limit(limit)
    chosen = check_ranking(ranking)
    prepared = prepare_filter(check_filter(filter))
    parameters = prepared.parameters | _weights(chosen) | _question(context, text, chosen)
    parameters |= {
        "namespace": context.namespace,
        "limit": at_most,
        "min_score": _check_min_score(min_score),
        "as_of": None if as_of is None else check_time(as_of, "as_of"),
        "blocks": max(_BLOCKS[0] * at_most, _BLOCKS[1]),
        "candidates": max(_CANDIDATES[0] * at_most, _CANDIDATES[1]),
    }
    if not at_most:
        await context.ready()
        return Hits()
    pruned = not exact and filter is None and at_most < _LARGE_LIMIT
    rows = await context.fetch(recall_lexical, parameters, pruned, prepared.shape)
    await context.touch([row["id"] for row in rows])
    return Hits(_hit(row, explain=explain) for row in rows)


def _check_min_score(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError("min_score", "must be a number or None")
    if math.isnan(value):
        raise InvalidValueError("min_score", "must not be NaN")
    return float(value)


def _weights(ranking: Ranking) -> dict[str, Any]:
    recency, half_life = ranking.recency or (0.0, None)
    window = WINDOW if ranking.context else {}
    return {
        "distances": [0, *window],
        "nearness": [1.0, *(ranking.context * share for share in window.values())],
        "answer": ANSWER * ranking.context,
        "thread_rarity": THREAD_RARITY if ranking.context else 0.0,
        "subject": float(ranking.subject),
        "question": float(ranking.question),
        "brevity": float(ranking.brevity),
        "thread": float(ranking.thread),
        "recency": float(recency),
        "half_life_seconds": None if half_life is None else half_life.total_seconds(),
        "importance": float(ranking.importance),
        "confidence": float(ranking.confidence),
    }


def _question(context: Context, text: str, ranking: Ranking) -> dict[str, Any]:
    question = read_question(text, forms=ranking.forms, dates=ranking.dates)
    return {
        "words": question.words,
        "groups": question.groups,
        "dated": question.dated,
        "names": question.names,
        "subject_field": context.subject_field,
    }


def _hit(row: Record, *, explain: bool) -> Hit:
    from .._sql.recalling import PARTS
    from .._sql.records import record_from_row

    parts = {name: row[f"part_{name}"] for name in PARTS if row[f"part_{name}"]} if explain else {}
    return Hit(record_from_row(row), row["score"], parts)
