"""The verb that finds memories by what they are about, and those on the words it goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .._context import Context
    from .._pooling import Connection
    from .._recall.after import Reranker
    from ..filters import Filter
    from ..ranking import Preset, Ranking
    from ..recall_records import Hits, KnownWords


class RecallVerbs:
    """`recall`, `set_language` and `refresh_words`."""

    _context: Context

    async def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        filter: Filter | Mapping[str, Any] | None = None,
        ranking: Ranking | Preset = "hybrid",
        min_score: float | None = None,
        exact: bool = False,
        as_of: datetime | None = None,
        explain: bool = False,
        reranker: Reranker | None = None,
        diversity: float = 0.0,
        connection: Connection | None = None,
    ) -> Hits:
        """Return the ``limit`` memories that answer ``query`` best, best first, as a list of hits.

        A hit's ``score`` is the weight of the query's words that the memory holds, as a share of the weight of all of
        them, and what the other parts of the ranking add: 0.0 has nothing of the query, about 1.0 has all of it. With
        ``ranking="hash"`` it is the cosine of `search`, and so is the order. Equal scores come in insertion order.
        Where fewer memories than ``limit`` have anything of the query, others that match ``filter`` follow with what
        their priors give them, 0.0 by default; ``min_score`` leaves out all below it.

        ``filter`` is as for `find`; it never makes a recall return fewer memories than match it and were asked for.
        ``ranking`` is ``"hybrid"`` (words and, if this object has an embedder, vectors), ``"lexical"``, ``"vector"``
        (the nearest by the embedder, and nothing else), ``"hash"`` or a `Ranking`. Without a filter only the most
        promising places are looked at closely; ``exact=True`` looks at all.
        ``as_of`` is the instant at which expiry and recency are judged, by default now. ``explain=True`` gives each hit
        the parts of its score, and its nearest field where this object embeds several. What was left out, such as
        vectors when the embedder fails, is said in the ``plan`` of what is returned.

        ``reranker`` is an async callable that gets the query and a list of contents and returns a score for each; the
        first 40 hits, or four times ``limit``, come before it, and its scores count from then on, for ``min_score``
        too. ``diversity``, from 0 to 1, is how much it counts that a hit repeats little of those before it.

        Raises InvalidTypeError or InvalidValueError for bad arguments.
        """
        from .._recall.recall import recall

        return await recall(
            self._context.reading(connection),
            query,
            limit=limit,
            filter=filter,
            ranking=ranking,
            min_score=min_score,
            exact=exact,
            as_of=as_of,
            explain=explain,
            reranker=reranker,
            diversity=diversity,
        )

    async def set_language(self, language: str, *, connection: Connection | None = None) -> int:
        """Have the words of this namespace stemmed as ``language`` says, and return how many memories it changed.

        ``language`` names a text search configuration of the database: ``"english"``, which every namespace has at
        first, ``"german"``, ``"simple"`` for words as they are written, and so on. What is there is indexed anew, some
        thousand memories at a time; until it is done, `recall` may miss a form of a word. Called again after it was
        cut short, it goes on where it was.

        Raises InvalidValueError if the database has no such configuration.
        """
        from .._writing.language import set_language

        self._context.refuse_principal("set_language()")
        return await set_language(self._context.on(connection), language)

    async def refresh_words(self, *, connection: Connection | None = None) -> KnownWords:
        """Count the words of this namespace's active memories anew, and return how many there are.

        With ``Ranking(typos=…)`` `recall` replaces a word of the query that no memory holds by the known word nearest
        to it; nothing else depends on them. They are known from the last call on, whatever was written since: a newer
        word is found if it is spelt right, and one that is gone leads to nothing. Call it after loading, and now and
        then. It reads all active memories in one statement, while others read and write. `clear` forgets the words.

        Where the database has no extension pg_trgm, words are counted and not compared; an object finds out when it is
        opened.
        """
        from .._writing.known_words import refresh_words

        self._context.refuse_principal("refresh_words()")
        return await refresh_words(self._context.on(connection))
