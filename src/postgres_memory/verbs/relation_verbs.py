"""Verbs on relations: the join table, traversal, contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .._context import Context
    from .._pooling import Connection
    from .._relation_reading import Direction
    from ..filters import Filter
    from ..graph_records import Contradiction, Related, Relation
    from ..records import MemoryRelationType


class RelationVerbs:
    """`relate`, `unrelate`, `relations`, `related` and `contradictions`."""

    _context: Context

    async def relate(
        self,
        source: str,
        target: str,
        type: MemoryRelationType | str,
        *,
        label: str = "",
        confidence: float = 1.0,
        metadata: dict[str, Any] | None = None,
        connection: Connection | None = None,
    ) -> Relation:
        """Store that the memory ``source`` stands in a relation to ``target``, and return it as it is stored.

        A relation is known by source, type, label and target: if it is there, it gets the given confidence and
        metadata in place of its own. ``label`` is free text of at most 255 bytes, for vocabularies richer than the six
        types. One relation is enough for both readings: of PRECEDES and FOLLOWS, of CONTRADICTS and of RELATED.

        Raises NotFoundError naming the memory that is not there, InvalidTypeError or InvalidValueError for bad
        arguments, also for a memory related to itself. Whatever it raises, nothing was written.
        """
        from .._graph.relate import relate

        return await relate(
            self._context.on(connection),
            source,
            target,
            type,
            label=label,
            confidence=confidence,
            metadata=metadata,
        )

    async def unrelate(
        self,
        source: str,
        target: str,
        type: MemoryRelationType | str,
        *,
        label: str = "",
        connection: Connection | None = None,
    ) -> bool:
        """Remove a relation, named as it is stored. Return True if this call removed it, False if there was none.

        What was read from the other end is stored the other way round: `Relation.stored` says how.
        """
        from .._graph.unrelate import unrelate

        return await unrelate(self._context.on(connection), source, target, type, label=label)

    async def relations(
        self,
        id: str,
        *,
        direction: Direction = "out",
        types: Iterable[MemoryRelationType | str] | None = None,
        connection: Connection | None = None,
    ) -> list[Relation]:
        """Return the relations of one memory as they read from it, whatever the status of either memory.

        ``"out"`` gives those whose source it is, ``"in"`` those whose target it is, ``"both"`` every one once.
        PRECEDES and FOLLOWS are each other's inverse, and CONTRADICTS and RELATED are symmetric, so these can be read
        from either end: where "a PRECEDES b" is stored, ``"out"`` of b gives "b FOLLOWS a" with ``reversed=True``.
        With ``"both"``, such a relation is given as outgoing. ``types`` are the types as they are read.

        Order: outgoing before incoming, then by type, label and the id of the other memory.

        Raises NotFoundError if there is no such memory.
        """
        from .._graph.relations import relations

        return await relations(self._context.reading(connection), id, direction=direction, types=types)

    async def related(
        self,
        id: str,
        *,
        types: Iterable[MemoryRelationType | str] | None = None,
        direction: Direction = "out",
        max_depth: int = 2,
        min_confidence: float = 0.0,
        limit: int = 50,
        max_fan_out: int = 200,
        max_visits: int = 10_000,
        include_inactive: bool = False,
        connection: Connection | None = None,
    ) -> Related:
        """Return the memories that relations of one memory lead to, over at most ``max_depth`` steps, best first.

        ``direction`` and ``types`` say which relations are followed, read as in `relations`. Each memory comes once,
        with the best way to it: the highest product of the confidences on it, which is at least ``min_confidence``;
        then the shortest; then the first by the ids on it. Order: by that product, then by depth, then by id.
        Memories that are not active or have expired are neither returned nor walked over, unless
        ``include_inactive``; the status of the memory asked about does not matter, and it is never among the results.

        The walk is bounded whatever the graph looks like: of each memory, the ``max_fan_out`` most confident relations
        are followed (of equal ones, the first by id), and ``max_visits`` in all, the best ways first; relations to
        memories that are not seen count too. ``truncated`` says that one of these was reached, and then the ways are
        the best among those walked. ``has_more`` says that more memories were reached than ``limit``.
        ``max_depth`` is at most 32.

        Raises NotFoundError if there is no such memory, InvalidTypeError or InvalidValueError for bad arguments.
        """
        from .._graph.related import Caps, related

        return await related(
            self._context.reading(connection),
            id,
            types=types,
            direction=direction,
            min_confidence=min_confidence,
            limit=limit,
            caps=Caps(max_depth, max_fan_out, max_visits),
            include_inactive=include_inactive,
        )

    async def contradictions(
        self,
        filter: Filter | Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        connection: Connection | None = None,
    ) -> list[Contradiction]:
        """Return the pairs of active, unexpired memories that a CONTRADICTS relation joins, each pair once.

        It does not matter which way the relation was stored, nor how many with different labels there are. With a
        ``filter``, both memories of a pair match it; one that speaks of ``status`` decides about it instead. Order:
        the most confident pair first, then by the order in which the memories were stored. ``limit`` is how many pairs
        at most, None for all.

        Raises InvalidTypeError or InvalidValueError for a bad filter or limit.
        """
        from .._graph.contradictions import contradictions

        return await contradictions(self._context.reading(connection), filter=filter, limit=limit)
