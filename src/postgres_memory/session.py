"""PostgresSession: a conversation's messages in PostgreSQL, under the Session protocol of flux."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ._connecting import connect
from ._context import Context
from ._json import decode_metadata, encode_metadata
from ._pooling import PoolOptions
from ._principal import Principal, check_principal
from ._sql.policies import PRINCIPAL_ROLE
from ._telemetry import observed_verbs
from ._validation import MAX_CONTENT_BYTES, Limits, check_key, check_limit, check_namespace, kind_of
from .errors import InvalidTypeError
from .ids import new_id

if TYPE_CHECKING:
    from types import TracebackType

    from ._pooling import Connection, Pool


@observed_verbs
class PostgresSession:
    """The log of one conversation: messages are JSON objects, kept whole and in order.

    ``dsn`` is what `PostgresMemory` takes. Without a ``session_id`` a new one is made. Messages are ordered by
    insertion, never by time; several processes may append at once. Clearing a memory leaves sessions alone. With a
    ``principal``, messages are added as its own, and those that are not its own are not there for it, as in
    `PostgresMemory.as_principal`, with ``principal_role``.

    Raises InvalidTypeError, InvalidValueError or ConfigurationError for arguments that cannot be.
    """

    def __init__(
        self,
        dsn: str | Pool | None = None,
        session_id: str | None = None,
        *,
        namespace: str = "default",
        schema: str = "memory",
        principal: str | None = None,
        pool_min_size: int = 1,
        pool_max_size: int = 10,
        principal_role: str = PRINCIPAL_ROLE,
    ) -> None:
        self._session_id = new_id() if session_id is None else check_key(session_id, "session_id")
        options = PoolOptions(pool_min_size, pool_max_size)
        self._connecting = connect(dsn, schema, options, principal_role=principal_role)
        limits = Limits(content_bytes=MAX_CONTENT_BYTES)
        context = Context(self._connecting.database, check_namespace(namespace), limits)
        if principal is not None:
            asking = Principal(check_principal(principal, "principal"), context.namespace, principal_role)
            context = replace(context, principal=asking)
        self._context = context

    def __repr__(self) -> str:
        return (
            f"PostgresSession({self._connecting.source}, {self.session_id!r}, "
            f"namespace={self._context.namespace!r})"
        )

    @property
    def session_id(self) -> str:
        """The identifier of the conversation."""
        return self._session_id

    async def get_messages(
        self, limit: int | None = None, *, connection: Connection | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages, or the last ``limit`` of them, oldest first, with every key they were added with."""
        from ._sql.sessions import get_last_messages, get_messages

        builder = get_messages if limit is None else get_last_messages
        parameters = self._key | {"limit": None if limit is None else check_limit(limit)}
        rows = await self._context.on(connection).fetch(builder, parameters)
        return [decode_metadata(row["message"]) for row in rows]

    async def add_messages(
        self, messages: list[dict[str, Any]], *, connection: Connection | None = None
    ) -> None:
        """Append ``messages`` in their order: all of them or, if one cannot be stored as JSON, none.

        Raises InvalidTypeError or InvalidValueError with the path to what is wrong.
        """
        from ._sql.sessions import add_messages

        if not isinstance(messages, list | tuple):
            raise InvalidTypeError("messages", f"must be a list of dict, not {kind_of(messages)}")
        encoded = [_encode(message, position) for position, message in enumerate(messages)]
        if encoded:
            parameters = self._key | {"messages": encoded, "owner": self._context.owner}
            await self._context.on(connection).once(add_messages, parameters)

    async def clear(self, *, memories: bool = False, connection: Connection | None = None) -> None:
        """Delete every message of this session.

        With ``memories`` the SESSION memories of this namespace that name it as their ``session_id`` go with them, in
        one statement; memories of other types stay.
        """
        from ._sql.lifecycle import clear_session
        from ._sql.sessions import clear_messages

        await self._context.on(connection).fetch(clear_session if memories else clear_messages, self._key)

    async def open(self) -> None:
        """Connect and check the schema now rather than at the first call."""
        await self._context.database.opened()

    async def close(self) -> None:
        """Close what this object opened. Idempotent; a borrowed pool stays open."""
        await self._context.database.close()

    async def __aenter__(self) -> PostgresSession:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _key(self) -> dict[str, Any]:
        return {"namespace": self._context.namespace, "session_id": self._session_id}


def _encode(message: object, position: int) -> str:
    argument = f"messages[{position}]"
    if message is None:
        raise InvalidTypeError(argument, "must be a dict, not None")
    return encode_metadata(message, argument)
