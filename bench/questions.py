"""Questions with known answers: reading a data folder, BM25 as the floor, and how good a ranking is.

A data set is two files of JSON Lines. ``NAME_turns.jsonl`` holds memories in their order: ``conv`` (whose memory it is:
one namespace), ``id``, ``text``, ``date`` (ISO), ``session`` (the thread, or null) and ``speaker`` (the subject, or
null). ``NAME_queries.jsonl`` holds ``conv``, ``qid``, ``question``, ``category`` and ``relevant``, the ids that answer.
"""

from __future__ import annotations

import json
import math
import random
import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: What is measured, in the order of the columns.
METRICS = ("r@5", "r@10", "MRR@10", "nDCG@10")
_NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """A memory to store."""

    id: str
    text: str
    created_at: datetime
    thread: str | None
    subject: str | None

    def item(self) -> dict[str, Any]:
        """Return the keywords of `add`."""
        return {
            "content": self.text,
            "id": self.id,
            "created_at": self.created_at,
            "thread_id": self.thread,
            "metadata": {} if self.subject is None else {"subject": self.subject},
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the ids of the memories that answer it."""

    id: str
    question: str
    category: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One namespace's worth."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Asked, ...]

    def shuffled(self, seed: int) -> Conversation:
        """Return the same as unrelated facts: in random order, without threads, subjects and dates."""
        turns = [replace(turn, thread=None, subject=None, created_at=_NO_DATE) for turn in self.turns]
        random.Random(seed).shuffle(turns)
        return replace(self, turns=tuple(turns))

    def mistyped(self, share: float, chance: random.Random) -> Conversation:
        """Return the same with typing errors in its questions."""
        questions = (
            replace(asked, question=mistyped(asked.question, share, chance)) for asked in self.questions
        )
        return replace(self, questions=tuple(questions))


def mistyped(question: str, share: float, chance: random.Random) -> str:
    """Return a question with a typing error in that share of its words of four letters and more.

    Two letters are swapped, one is left out, put in, or another one; seldom the first.
    """

    def error(found: re.Match[str]) -> str:
        word = found[0]
        if chance.random() >= share:
            return word
        place = chance.randrange(1, len(word) - 1) if chance.random() < 0.9 else 0
        before, here, behind = word[:place], word[place], word[place + 1 :]
        other = chance.choice(string.ascii_lowercase)
        forms = (before + behind[0] + here + behind[1:], before + behind, before + other + here + behind)
        return chance.choice((*forms, before + other + behind))

    return re.sub(r"[A-Za-z]{4,}", error, question)


def together(conversations: Sequence[Conversation]) -> Conversation:
    """Return all conversations as one: one namespace, the threads and questions of all."""
    turns, questions = [], []
    for one in conversations:
        for turn in one.turns:
            thread = None if turn.thread is None else f"{one.name} {turn.thread}"
            turns.append(replace(turn, id=f"{one.name} {turn.id}", thread=thread))
        for asked in one.questions:
            relevant = frozenset(f"{one.name} {id_}" for id_ in asked.relevant)
            questions.append(replace(asked, relevant=relevant))
    return Conversation("together", tuple(turns), tuple(questions))


def read_conversations(folder: Path, name: str, without: Sequence[str] = ()) -> list[Conversation]:
    """Read a data set; questions of the categories ``without``, or without an answer, are left out."""
    turns: dict[str, list[Turn]] = defaultdict(list)
    questions: dict[str, list[Asked]] = defaultdict(list)
    for line in _lines(folder / f"{name}_turns.jsonl"):
        turns[line["conv"]].append(_turn(line))
    for line in _lines(folder / f"{name}_queries.jsonl"):
        if line["relevant"] and line["category"] not in without:
            asked = Asked(line["qid"], line["question"], line["category"], frozenset(line["relevant"]))
            questions[line["conv"]].append(asked)
    return [Conversation(conv, tuple(turns[conv]), tuple(questions[conv])) for conv in turns]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _turn(line: Mapping[str, Any]) -> Turn:
    moment = datetime.fromisoformat(line["date"])
    session = line["session"]
    return Turn(
        line["id"],
        line["text"],
        moment if moment.tzinfo else moment.replace(tzinfo=UTC),
        None if session is None else str(session),
        line["speaker"],
    )


def measure(ranked: Sequence[str], relevant: frozenset[str]) -> tuple[float, ...]:
    """Return `METRICS` of one question; ``ranked`` are ids, best first."""
    gains = [id_ in relevant for id_ in ranked[:10]]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(len(relevant), 10)))
    return (
        sum(gains[:5]) / len(relevant),
        sum(gains) / len(relevant),
        next((1 / (place + 1) for place, gain in enumerate(gains) if gain), 0.0),
        sum(1 / math.log2(place + 2) for place, gain in enumerate(gains) if gain) / ideal,
    )


class BM25:
    """Okapi BM25 (Robertson and Zaragoza 2009) over lexemes that are given, k1 = 1.2 and b = 0.75."""

    def __init__(self, texts: Sequence[Counter[str]]) -> None:
        self._lengths = [sum(text.values()) for text in texts]
        self._mean = sum(self._lengths) / len(texts)
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, text in enumerate(texts):
            for lexeme, times in text.items():
                self._postings[lexeme].append((number, times))

    def rank(self, lexemes: Sequence[str], limit: int = 10) -> list[int]:
        """Return the numbers of the best texts that hold one of the lexemes; of equal ones the first comes first."""
        scores: dict[int, float] = defaultdict(float)
        for lexeme in sorted(set(lexemes)):
            holding = self._postings.get(lexeme, [])
            rarity = math.log(1 + (len(self._lengths) - len(holding) + 0.5) / (len(holding) + 0.5))
            for number, times in holding:
                length = 1 - 0.75 + 0.75 * self._lengths[number] / self._mean
                scores[number] += rarity * times * 2.2 / (times + 1.2 * length)
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]
