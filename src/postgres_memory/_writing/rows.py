"""New memories that can meet nothing, so that one statement may write those of several calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._spaces.registering import register
from .._sql.policies import SYSTEM
from .._telemetry import coalesced
from ..embedding.hashing import hash_counts_many
from ..errors import EmbedderError
from .embedding import space_of, vectors_of

if TYPE_CHECKING:
    from asyncpg import Record

    from ..embedding.vectors import Vectors

#: Texts of so many characters together are counted on a thread, so that the event loop goes on.
_LONG = 50_000

#: What `store` says where `add` in the same statement says it.
DEFAULTS: dict[str, Any] = {
    "memory_type": "persistent",
    "status": "active",
    "importance": 0.5,
    "confidence": 1.0,
    "tags": (),
    "session_id": None,
    "owner": SYSTEM,
    "readers": (),
    "writers": (),
    "expires_at": None,
    "ttl_seconds": None,
    "created_at": None,
}


@dataclass(slots=True, eq=False)
class Row:
    """A memory to be written, checked, under a new id, neither deduped nor related to others.

    ``parameters`` say all but what is made of its content. ``alone`` writes it in a statement of its own and returns
    what its caller learns. Where it was written with others, ``answer`` makes that of what the server set and the
    shingle counts; without one the caller learns nothing, and only what `store` takes is said.
    """

    parameters: dict[str, Any]
    alone: Callable[[Context], Awaitable[Any]]
    answer: Callable[[Record, list[int]], Any] | None = None

    @property
    def content(self) -> str:
        """The content."""
        content: str = self.parameters["content"]
        return content

    @property
    def characters(self) -> int:
        """How much text it holds."""
        return len(self.content) + len(self.parameters["metadata"])


async def write_rows(context: Context, rows: Sequence[Row]) -> list[Any]:
    """Write all of the rows, in one statement and in this order, or none of them.

    Returns for each what its caller learns. A row whose embedding cannot be stored is left out; its error stands in
    place of an answer.
    """
    from .._sql.storing_many import store_memories

    embedded = await _embedded(context, [row.content for row in rows])
    answers: list[Any] = [one if isinstance(one, EmbedderError) else None for one in embedded]
    good = [number for number, answer in enumerate(answers) if answer is None]
    if not good:
        return answers
    written = [rows[number] for number in good]
    vectors = [one for one in embedded if not isinstance(one, EmbedderError)]
    counts = await _counts(written)
    whole = any(row.answer is not None for row in written)
    parameters = _parameters(context, written, counts, whole) | _vector_parameters(context, vectors)
    shape = whole, parameters["vectors"] is not None
    stored = await context.fetch(store_memories, parameters, *shape, repeatable=True)
    coalesced(len(written))
    by_id = {row["id"]: row for row in stored}
    for place, number in enumerate(good):
        row = rows[number]
        if row.answer is not None:
            answers[number] = row.answer(by_id[row.parameters["id"]], counts[place])
    return answers


async def _counts(rows: Sequence[Row]) -> list[list[int]]:
    """Return the shingle counts of each row."""
    contents = [row.content for row in rows]
    if sum(map(len, contents)) < _LONG:
        counts = hash_counts_many(contents)
    else:
        counts = await asyncio.to_thread(hash_counts_many, contents)
    each: list[list[int]] = counts.tolist()
    return each


def _parameters(
    context: Context, rows: Sequence[Row], counts: list[list[int]], whole: bool
) -> dict[str, Any]:
    from .._sql.storing_many import LISTS, SAID, SAID_WHOLE

    said = [row.parameters for row in rows]
    parameters: dict[str, Any] = {name: [each[name] for each in said] for name in SAID.keys() - {"counts"}}
    if whole:
        parameters |= {name: [each.get(name, DEFAULTS[name]) for each in said] for name in SAID_WHOLE}
        parameters |= {name: [_array(texts) for texts in parameters[name]] for name in LISTS}
    return parameters | {"namespace": context.namespace, "counts": list(map(str, counts))}


def _array(texts: Sequence[str]) -> str:
    """Return an array as PostgreSQL reads it from text."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


async def _embedded(context: Context, contents: list[str]) -> list[Vectors | EmbedderError | None]:
    """Return for each content its vector, in a row; None where it waits, and the error where it cannot be stored.

    The embedder is given all of them at once. If it fails, it is given each by itself: one may be to blame.
    """
    if context.embedder is None:
        return [None] * len(contents)
    try:
        rows = await context.embedder.embed(contents)
        await register(context, context.embedder)
    except EmbedderError:
        each = (vectors_of(context, [content]) for content in contents)
        outcomes = await asyncio.gather(*each, return_exceptions=True)
        return [_vector_or_reason(outcome) for outcome in outcomes]
    return [rows[number : number + 1] for number in range(len(contents))]


def _vector_or_reason(outcome: Vectors | BaseException | None) -> Vectors | EmbedderError | None:
    """Return what became of a content; raise what has nothing to do with it."""
    if isinstance(outcome, BaseException) and not isinstance(outcome, EmbedderError):
        raise outcome
    return outcome


def _vector_parameters(context: Context, vectors: Sequence[Vectors | None]) -> dict[str, Any]:
    """Return the vectors of the rows that have one, one behind the other, and which is whose."""
    there = [vector for vector in vectors if vector is not None]
    if not there:
        return {"vectors": None}
    places = iter(range(1, len(there) + 1))
    return space_of(context, there[0]) | {
        "vector_at": [None if vector is None else next(places) for vector in vectors],
        "vectors": [number for vector in there for number in vector[0].tolist()],
    }
