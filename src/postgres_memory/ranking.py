"""How `recall` ranks, as data: which legs, and the weight of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Literal

from ._validation import check_duration, kind_of
from .errors import InvalidTypeError, InvalidValueError

Preset = Literal["hash", "lexical", "vector", "hybrid"]

#: Products of weights between these are numbers that PostgreSQL computes without an error.
_LEAST, _MOST = 1e-6, 1e6


@dataclass(frozen=True, slots=True)
class Ranking:
    """The weights of a ranking. Every part is switched off by the weight that changes nothing: 0, or 1 for a factor.

    ``lexical`` is the weight of the words that a memory shares with the query; ``vector`` that of its embedding, in the
    space of the object's embedder or, with ``space="hash"``, in the hash space. Without an embedder there is no vector
    to weigh beside words.

    ``context`` is how much the words and vectors of neighbours in the same thread count, as a share of the usual (1.0).

    Of the words: ``subject`` is the factor for memories by the subject that the query names, with the object's
    ``subject_field``; ``thread`` is how much of the best score nearby in its thread a memory gets on top; ``question``
    is the factor for memories that end with a question mark; ``dates`` has words of a date in the query found in the
    time of a memory, and ``forms`` irregular forms of a word found as well (went for go). ``typos`` is how much a known
    word counts that replaces one which no memory holds, as a share of the usual, where the database has pg_trgm (see
    `refresh_words`).

    ``fusion`` says how words and vectors come together: ``"sum"`` adds their scores, ``"rrf"`` what their ranks are
    worth. ``relations`` is how much of its score a hit gives to memories that support or extend it or that it supports
    or extends, and loses where another contradicts it, for a relation of confidence 1.

    Priors, added to the score: ``recency`` is a weight and the time in which it halves, ``importance`` and
    ``confidence`` are weights of the fields.

    Raises InvalidTypeError or InvalidValueError for a weight that is neither 0 nor from 0.000001 to 1,000,000.
    """

    vector: float = 0.0
    lexical: float = 1.0
    space: Literal["hash"] | None = None
    context: float = 1.0
    subject: float = 2.0
    thread: float = 0.3
    question: float = 0.9
    dates: bool = True
    forms: bool = True
    typos: float = 0.0
    recency: tuple[float, timedelta] | None = None
    importance: float = 0.0
    confidence: float = 0.0
    relations: float = 0.0
    fusion: Literal["sum", "rrf"] = "sum"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("dates", "forms"):
                if not isinstance(value, bool):
                    raise InvalidTypeError(field.name, f"must be True or False, not {kind_of(value)}")
            elif field.name == "space":
                _check_space(value, self)
            elif field.name == "fusion":
                _check_fusion(value)
            elif field.name != "recency":
                _check_weight(value, field.name)
        if self.recency is not None:
            _check_recency(self.recency)
        if not self.lexical and not self.vector:
            raise InvalidValueError("ranking", "must give weight to lexical or to vector")


def _check_space(value: object, ranking: Ranking) -> None:
    if value not in (None, "hash"):
        raise InvalidValueError("space", "must be 'hash' or None, for the space of the object's embedder")
    if value == "hash" and ranking.lexical:
        raise InvalidValueError("space", "'hash' ranks by itself: set lexical to 0")


def _check_fusion(value: object) -> None:
    if value not in ("sum", "rrf"):
        raise InvalidValueError("fusion", "must be 'sum' or 'rrf'")


def _check_weight(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(name, f"must be a number, not {kind_of(value)}")
    if value and not _LEAST <= value <= _MOST:  # also NaN
        raise InvalidValueError(name, f"must be 0 or from {_LEAST:g} to {_MOST:,.0f}")


def _check_recency(value: object) -> None:
    if not isinstance(value, tuple) or len(value) != 2:
        raise InvalidTypeError("recency", "must be a weight and a timedelta, the time in which it halves")
    weight, half_life = value
    _check_weight(weight, "recency")
    check_duration(half_life, "recency")


#: The rankings that go by a name.
PRESETS: Mapping[str, Ranking] = {
    "hash": Ranking(vector=1.0, lexical=0.0, space="hash"),
    "lexical": Ranking(),
    "vector": Ranking(vector=1.0, lexical=0.0, context=0.0, subject=1.0, thread=0.0, question=1.0),
    "hybrid": Ranking(vector=0.8),
}


def check_ranking(value: object) -> Ranking:
    """Return the ranking that was named or given."""
    if isinstance(value, Ranking):
        return value
    if not isinstance(value, str):
        raise InvalidTypeError("ranking", f"must be a Ranking or the name of one, not {kind_of(value)}")
    if value not in PRESETS:
        raise InvalidValueError("ranking", f"must be a Ranking or one of {', '.join(map(repr, PRESETS))}")
    return PRESETS[value]
