"""Verbs on many memories: finding, counting, deleting by filter; on namespaces and on the database as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .._context import Context
    from .._pooling import Connection
    from .._recall.find import Order
    from ..filters import Filter
    from ..listing_records import Health, NamespaceInfo, Page
    from ..records import MemoryRecord


class ListingVerbs:
    """`find`, `count`, `delete_many`, `namespaces`, `health`, `create_metadata_index` and `drop_metadata_index`."""

    _context: Context

    async def find(
        self,
        *,
        filter: Filter | Mapping[str, Any] | None = None,
        order_by: Order = "-created_at",
        limit: int = 50,
        cursor: str | None = None,
        include_inactive: bool = False,
        connection: Connection | None = None,
    ) -> Page[MemoryRecord]:
        """Return one page of the memories that match ``filter``, at most ``limit`` of them, in an order.

        ``order_by`` names a column, with a minus for the largest first: ``"-created_at"`` is newest first. Equal values
        come in the order of insertion, or its reverse with a minus, so that every order is total. ``cursor`` is that of
        the page before; a page has None where there is no more. Memories that are added, deleted or changed between two
        pages make no other one appear twice or go missing. Page 10,000 costs what page 1 costs.

        Active memories that have not expired are listed. A filter that speaks of ``status`` decides about it instead,
        and ``include_inactive=True`` lists every memory, also expired ones.

        Raises InvalidTypeError or InvalidValueError for a bad filter, order or limit, and for a cursor that is damaged
        or belongs to another filter, order or namespace.
        """
        from .._recall.find import find

        return await find(
            self._context.reading(connection),
            filter=filter,
            order_by=order_by,
            limit=limit,
            cursor=cursor,
            include_inactive=include_inactive,
        )

    async def count(
        self,
        filter: Filter | Mapping[str, Any] | None = None,
        *,
        include_inactive: bool = False,
        connection: Connection | None = None,
    ) -> int:
        """Return how many memories match: as many as `find` lists on all of its pages with the same arguments.

        Raises InvalidTypeError or InvalidValueError for a bad filter.
        """
        from .._recall.count import count

        return await count(self._context.reading(connection), filter, include_inactive=include_inactive)

    async def delete_many(
        self,
        filter: Filter | Mapping[str, Any] | None,
        *,
        all: bool = False,
        connection: Connection | None = None,
    ) -> int:
        """Delete every memory that matches, with its relations, and return how many this call deleted.

        Whatever their status, and expired ones too: ``count(filter, include_inactive=True)`` says how many it will be.
        All or none are deleted. A filter that matches every memory by the way it is built (None, an empty one) is
        refused unless ``all=True``.

        Raises InvalidTypeError or InvalidValueError before anything is deleted.
        """
        from .._writing.delete_many import delete_many

        return await delete_many(self._context.on(connection), filter, everything=all)

    async def namespaces(
        self, *, counts: bool = False, connection: Connection | None = None
    ) -> list[NamespaceInfo]:
        """Return every namespace of the schema that holds memories, in the order of Python's strings.

        The time it takes grows with the number of namespaces. ``counts=True`` also counts the memories of each, which
        takes time with their number.
        """
        from .._recall.namespaces import namespaces

        self._context.refuse_principal("namespaces()")
        return await namespaces(self._context.on(connection), counts=counts)

    async def health(self, *, connection: Connection | None = None) -> Health:
        """Return what can be said of the database: versions, schema, role, pool, and how fast it answers.

        A schema that is missing or too old, a role without the rights of the owner and the like are ``problems`` of
        what is returned, not errors. Raises DatabaseUnavailableError or DatabaseTimeoutError if there is no answer.
        """
        from .._recall.health import health

        self._context.refuse_principal("health()")
        return await health(self._context.on(connection))

    async def create_metadata_index(
        self, *, progress: Callable[[str, int, int], object] | None = None
    ) -> bool:
        """Build an index on metadata, for every namespace, while others read and write; return False if it was there.

        It answers conditions on metadata that ask for equal values: `find`, `count`, `delete_many` and `recall` then
        read what matches instead of all memories. Which filters those are, and what it costs, is said in the reference
        of filters. What an earlier call that failed or was killed left is removed first. ``progress`` is called with
        the phase of the server, how much of it is done and of how much; it may be async.

        It waits until every transaction that wrote before it is over. It uses a connection of its own, or one of a
        borrowed pool, which must not go through a pooler that gives each transaction another one. Raises UsageError
        inside a transaction, a DatabaseError if the server fails.
        """
        from .._spaces.metadata_index import create_metadata_index

        self._context.refuse_principal("create_metadata_index()")
        return await create_metadata_index(self._context, progress=progress)

    async def drop_metadata_index(self) -> bool:
        """Drop the index on metadata; return whether there was one. Raises UsageError inside a transaction."""
        from .._spaces.metadata_index import drop_metadata_index

        self._context.refuse_principal("drop_metadata_index()")
        return await drop_metadata_index(self._context)
