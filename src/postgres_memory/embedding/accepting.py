"""What callers give as an embedder, brought into one form: a function of texts and one of a query, both awaited.

Accepted are an `Embedder`, objects with LangChain's or sentence-transformers' methods, and plain functions, each sync
or async. What is sync runs on a thread, never on the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .._validation import check_key, check_positive, kind_of
from ..errors import InvalidTypeError, InvalidValueError
from .protocol import Embedder

#: Methods that embed texts and, if the object has it, the one for queries; the first that an object has are taken.
_METHODS = (
    ("embed", "embed_query"),
    ("aembed_documents", "aembed_query"),
    ("embed_documents", "embed_query"),
    ("encode_document", "encode_query"),
    ("encode", ""),
)

#: The name of the space that is always there: that of the hash embedding.
HASH_SPACE = "hash"

Call = Callable[[Any], Awaitable[Any]]


class TextEmbedder(Protocol):
    """What is like an `Embedder`, but may not know its name or its dimensions."""

    def embed(self, texts: list[str], /) -> Any:
        """Return one vector per text."""
        ...


class DocumentEmbedder(Protocol):
    """What LangChain calls Embeddings."""

    def embed_documents(self, texts: list[str], /) -> Any:
        """Return one vector per text."""
        ...

    def embed_query(self, text: str, /) -> Any:
        """Return the vector of a query."""
        ...


class Encoder(Protocol):
    """What sentence-transformers calls a SentenceTransformer."""

    def encode(self, sentences: list[str], /) -> Any:
        """Return one vector per text."""
        ...


#: What is accepted as an embedder. Vectors are lists of float or arrays.
AnyEmbedder = Embedder | TextEmbedder | DocumentEmbedder | Encoder | Callable[[list[str]], Any]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An embedder in one form. What it returns is not checked yet."""

    name: str | None
    dimensions: int | None
    embed: Call
    embed_query: Call | None


def accept(embedder: object, argument: str = "embedder") -> Accepted:
    """Return ``embedder`` in one form. Raises InvalidTypeError for what is none."""
    embed, embed_query = _functions(embedder, argument)
    name, dimensions = getattr(embedder, "name", None), getattr(embedder, "dimensions", None)
    return Accepted(
        name=name if isinstance(name, str) else None,
        dimensions=None if dimensions is None else check_positive(dimensions, f"{argument}.dimensions"),
        embed=_awaited(embed),
        embed_query=None if embed_query is None else _awaited(embed_query),
    )


def check_space(value: object, argument: str = "space") -> str:
    """Return ``value`` as the name of an embedding space: a key, and not that of the hash space."""
    name = check_key(value, argument)
    if name == HASH_SPACE:
        raise InvalidValueError(
            argument, "must not be 'hash': that space is always there and needs no embedder"
        )
    return name


def space_of(accepted: Accepted, space: object, argument: str = "space") -> str:
    """Return the space of an embedder: as the caller says, or by the embedder's own name."""
    if space is None and accepted.name is None:
        raise InvalidValueError(
            argument, "name the embedding space: this embedder has no name of its own that could stand for it"
        )
    return check_space(accepted.name if space is None else space, argument)


def _functions(embedder: object, argument: str) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    if not isinstance(embedder, type | str):  # a str has an encode as well
        for embed, embed_query in _METHODS:
            method = getattr(embedder, embed, None)
            if callable(method):
                of_query = getattr(embedder, embed_query, None) if embed_query else None
                return method, of_query if callable(of_query) else None
        if callable(embedder):
            return embedder, None
    raise InvalidTypeError(
        argument,
        f"must be an Embedder, a function of a list of str, or an object with embed_documents or encode, "
        f"not {kind_of(embedder)}",
    )


def _awaited(function: Callable[..., Any]) -> Call:
    """Return ``function`` as one that is awaited; if it is not async, it runs on a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is what is looked at
    ):
        return function

    async def beside(given: str | Sequence[str]) -> Any:
        answer = await asyncio.to_thread(lambda: _whole(function(given)))
        return await answer if inspect.isawaitable(answer) else answer

    return beside


def _whole(answer: Any) -> Any:
    """Return ``answer``; what is made while one reads it is read here, on the thread."""
    return list(answer) if isinstance(answer, Iterator) else answer
