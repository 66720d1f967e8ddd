"""From the text of a query to its words, each with what else stands for it. Stems are the database's business."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain, islice
from unicodedata import normalize

from .._sql.term_functions import DATE_SIGN, JOINING, UNSPACED
from .english import irregular_forms

#: More words than this and a query is a text: the first ones are looked for.
MOST_WORDS = 64
#: So many are read to find those that say something.
_MOST_READ = 1_000
#: Words of English that ask for a number and say nothing of what is counted; PostgreSQL's stop words leave them in.
_ASKING = frozenset({"many", "much"})
_MARKS = "?!.,:'\"’…-"
#: How many words the name of a subject has at the most.
_LONGEST_NAME = 4

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_DATE_WORDS = {name: name for name in (*_MONTHS, *_DAYS)} | {
    name[:length]: name
    for name in (*_MONTHS, *_DAYS)
    for length in (3, 4, 5)
    if name[:length] not in ("mon", "sat", "sun")
}

_LETTERS = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED)
_RUN = re.compile(rf"[{_LETTERS}]+")
#: Pieces between spaces, and between marks that end a word in every language. PostgreSQL's parser does the rest, so
#: that a word, an address, a path or an emoji of a query is read as it is in a memory. Runs without spaces apart.
_TOKEN = re.compile(rf"[{_LETTERS}]+|(?:(?![{_LETTERS}])[^\s;()\[\]{{}}\"“”„«»。、，！？,]|,(?=\d))+")
_JOINING = re.compile(rf"[{re.escape(JOINING)}_]+")
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_DAY = re.compile(r"([12]?[0-9]|3[01])(?:st|nd|rd|th)?")
_ISO_DATE = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(?:T.*)?")
_YEAR = re.compile(r"(?:1[0-9]|20)[0-9]{2}")


@dataclass(slots=True)
class Question:
    """The words of a query as parallel lists: a spelling, the number of the word it stands for, whether it is a term.

    What is a term already is looked for as it is: dates, and letters of scripts without spaces. ``names`` are the words
    and short runs of words that may name a subject, in lower case.
    """

    words: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    ready: list[bool] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, group: int, *spellings: str, ready: bool = False) -> None:
        """Add spellings of a word."""
        self.words += spellings
        self.groups += [group] * len(spellings)
        self.ready += [ready] * len(spellings)


def read_question(query: str, *, forms: bool, dates: bool) -> Question:
    """Split a query into words; joined words into their parts and texts without spaces into pairs of letters."""
    query = normalize("NFKC", query)
    tokens = [token.group() for token in islice(_TOKEN.finditer(query), _MOST_READ)]
    spellings = list(islice(chain.from_iterable(map(_pieces, _telling(tokens))), MOST_WORDS))
    lower = [spelling.strip(_MARKS).lower() for spelling in spellings]
    with_month = any(_DATE_WORDS.get(word) in _MONTHS for word in lower)
    words = [token.group().lower() for token in islice(_WORD.finditer(query), MOST_WORDS)]
    question = Question(names=_names(words))
    for group, (spelling, word) in enumerate(zip(spellings, lower, strict=True)):
        question.add(group, spelling, ready=_RUN.match(spelling) is not None)
        if forms:
            question.add(group, *sorted(irregular_forms(word)))
        if dates:
            question.add(group, *_date_terms(word, with_month=with_month), ready=True)
    if dates:
        _add_whole_dates(question, lower)
    return question


def _add_whole_dates(question: Question, words: list[str]) -> None:
    """Add year, month and day of each date as ISO 8601 writes it, each a word of its own."""
    group = len(words)
    for found in filter(None, map(_ISO_DATE.fullmatch, words)):
        for term in (found[1], _MONTHS[int(found[2]) - 1], str(int(found[3]))):
            question.add(group, DATE_SIGN + term, ready=True)
            group += 1


def _telling(tokens: list[str]) -> list[str]:
    """Leave out the words that only ask, unless there are no others."""
    return [token for token in tokens if token.strip(_MARKS).lower() not in _ASKING] or tokens


def _pieces(token: str) -> list[str]:
    if not _RUN.match(token):
        return _parts(token)
    if len(token) == 1:
        return [token]
    return [token[place : place + 2] for place in range(min(len(token) - 1, MOST_WORDS))]


def _parts(token: str) -> list[str]:
    """Split a path, an address or a dotted name, so that each part weighs what it weighs; not numbers and initials."""
    parts = [part for part in _JOINING.split(token.strip(_MARKS)) if part]
    whole = len(parts) < 2 or all(len(part) == 1 for part in parts) or not re.search(r"[^\W\d_]", token)
    return [token] if whole or _ISO_DATE.fullmatch(token) else parts


def _date_terms(word: str, *, with_month: bool) -> list[str]:
    if word in _DATE_WORDS:
        return [DATE_SIGN + _DATE_WORDS[word]]
    day = _DAY.fullmatch(word) if with_month else None
    if day is not None:
        return [DATE_SIGN + day[1]]
    return [DATE_SIGN + word] if _YEAR.fullmatch(word) else []


def _names(words: list[str]) -> list[str]:
    """Return every run of up to four words; a possessive ending is no part of a name."""
    bare = [re.sub(r"['’]s?$", "", word) for word in words]
    runs = {
        " ".join(bare[start : start + length])
        for length in range(1, _LONGEST_NAME + 1)
        for start in range(len(bare) - length + 1)
    }
    return sorted(runs)
