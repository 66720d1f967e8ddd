"""Verbs on embedding spaces: filling them, changing the embedder, listing and dropping."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._context import Context
    from .._pooling import Connection
    from .._spaces.create_index import IndexKind
    from .._sql.space_index import IndexType
    from ..embedding.accepting import AnyEmbedder
    from ..embedding.protocol import Distance
    from ..space_records import EmbeddingSpace, EmbedResult, SpaceIndex


class SpaceVerbs:
    """`embed_pending`, `reembed`, `switch_space`, `drop_space`, `spaces`, `create_index` and `drop_index`."""

    _context: Context

    async def embed_pending(
        self,
        *,
        batch_size: int = 100,
        limit: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> EmbedResult:
        """Embed memories that have no embedding in the active space, at most ``limit``; say what became of them.

        These are memories that were stored while the embedder failed, in a transaction of the caller's, by an import of
        an export, by objects without an embedder, or before there was one; and those that lack one of a field that this
        object embeds, which they are given and nothing else. They are embedded by this object's embedder in batches of
        ``batch_size``, in insertion order; no connection is held meanwhile. Others may write, delete and embed at the
        same time: a memory whose texts changed under way is embedded as it is then. A text that the embedder refuses is
        left out and reported. ``progress`` is called with the number of memories handled and how many there were; it
        may be async.

        Raises UsageError without an embedder, if the active space is another embedder's, or inside a transaction;
        EmbedderError if the embedder fails whatever it is given, InvalidEmbeddingError if it always returns what cannot
        be stored: what was embedded before is stored.
        """
        from .._spaces.embed_pending import embed_pending

        self._context.refuse_principal("embed_pending()")
        return await embed_pending(self._context, batch_size=batch_size, limit=limit, progress=progress)

    async def reembed(
        self,
        space: str,
        *,
        embedder: AnyEmbedder | None = None,
        distance: Distance = "cosine",
        batch_size: int = 100,
        rate: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> EmbedResult:
        """Fill the embedding space ``space`` by ``embedder``, this object's own if it is that one's.

        The space is made if it is not there. Nobody searches it before `switch_space`: others go on reading and writing
        the active one. It is filled as by `embed_pending`, at most ``rate`` memories a second, and again until nothing
        is missing but what others are writing just now. A call that was cancelled or killed is gone on with by calling
        it again. The result's ``pending`` says how many memories have no embedding in it.

        Raises InvalidEmbeddingError if the space is there with other dimensions or another distance, SpaceError if it
        was dropped meanwhile, and what `embed_pending` raises.
        """
        from .._spaces.reembed import reembed

        self._context.refuse_principal("reembed()")
        return await reembed(
            self._context,
            space,
            embedder=embedder,
            distance=distance,
            batch_size=batch_size,
            rate=rate,
            progress=progress,
        )

    async def switch_space(
        self, space: str, *, max_pending: int = 1000, connection: Connection | None = None
    ) -> None:
        """Make ``space`` the active one of this namespace, for every process at once; the one before is retired.

        An object whose embedder is that of the retired space goes on searching and writing it, until `drop_space`, so
        that processes may be restarted with the new embedder one after another. What they write meanwhile is pending in
        the new space. Switching back is the same call. Nothing happens if the space is active already.

        Raises SpaceError if it is not there, or if more than ``max_pending`` memories have no embedding in it.
        """
        from .._spaces.switch_space import switch_space

        self._context.refuse_principal("switch_space()")
        await switch_space(self._context.on(connection), space, max_pending=max_pending)

    async def drop_space(self, space: str, *, batch_size: int = 10_000) -> int:
        """Delete an embedding space with its embeddings, ``batch_size`` to a transaction; return how many those were.

        Nobody searches it from the beginning. A call that was interrupted is finished by calling it again, or undone by
        `reembed`. Objects whose embedder it was store memories without an embedding from then on.

        Raises SpaceError if it is not there or the active one, UsageError inside a transaction.
        """
        from .._spaces.drop_space import drop_space

        self._context.refuse_principal("drop_space()")
        return await drop_space(self._context, space, batch_size=batch_size)

    async def spaces(self, *, connection: Connection | None = None) -> list[EmbeddingSpace]:
        """Return the embedding spaces of this namespace, oldest first, with how many memories each holds and lacks.

        The hash space, which always holds every memory, is not among them.
        """
        from .._spaces.spaces import spaces

        self._context.refuse_principal("spaces()")
        return await spaces(self._context.on(connection))

    async def create_index(
        self,
        space: str,
        *,
        kind: IndexKind = "hnsw",
        type: IndexType | None = None,
        m: int = 16,
        ef_construction: int = 64,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> SpaceIndex:
        """Build an approximate index for an embedding space, while others read and write.

        One index serves the space in every namespace. ``type`` is what it keeps vectors as: ``"vector"`` takes up to
        2,000 dimensions, ``"halfvec"``, of half precision, up to 4,000, ``"bit"``, one bit a dimension, more; None
        takes the first of them that fits. ``m`` and ``ef_construction`` are those of HNSW. An index with the same
        options that is there already is left; one with other options is dropped when the new one is whole. What an
        earlier call that failed or was killed left is removed first. ``progress`` is called with the phase of the
        server, how much of it is done and of how much; it may be async.

        It waits until every transaction that wrote before it is over, and until another call for this space is. It uses
        a connection of its own, to ``migration_dsn`` where there is one, or one of a borrowed pool. Raises
        ConfigurationError where that leads to a pooler, SpaceError if the space is not there, InvalidValueError for
        options that do not fit, UsageError inside a transaction, a DatabaseError if the server fails.
        """
        from .._spaces.create_index import create_index

        self._context.refuse_principal("create_index()")
        return await create_index(
            self._context,
            space,
            kind=kind,
            type=type,
            m=m,
            ef_construction=ef_construction,
            progress=progress,
        )

    async def drop_index(self, space: str) -> bool:
        """Drop the indexes of an embedding space in every namespace; return whether there were any.

        Vectors stay, and are searched exactly. It waits as `create_index` does. Raises UsageError inside a transaction.
        """
        from .._spaces.drop_index import drop_index

        self._context.refuse_principal("drop_index()")
        return await drop_index(self._context, space)
