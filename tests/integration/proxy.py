"""A TCP proxy before the server: counts round trips, is down, or answers nothing, as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ..conftest import Database

_READY_FOR_QUERY = b"Z"
#: Execute, of a prepared statement, and Query.
_EXECUTES = {b"E", b"Q"}


@dataclass(slots=True)
class Proxy:
    """``silent`` connections are accepted and never answered; ``delay`` is added to each answer, in seconds."""

    database: Database
    port: int = 0
    silent: bool = False
    delay: float = 0.0
    #: Counts what is executed; the answer to the execution of this number is lost, or the connection before it.
    executions: int = 0
    lose_answer_to: int = 0
    cut_before: int = 0
    round_trips: int = 0
    connections: int = 0
    sent: list[str] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _links: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def dsn(self) -> str:
        parts = urlsplit(self.database.direct_dsn)
        secret = f":{parts.password}" if parts.password else ""
        user = unquote(parts.username or "postgres")
        return (
            f"postgresql://{quote(user)}{secret}@127.0.0.1:{self.port}/{self.database.name}?sslmode=disable"
        )

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if self.silent:
                await asyncio.Event().wait()
            await self._link(reader, writer)
        writer.close()
        self._links.discard(task)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, questions = await self._connect()
        losing = asyncio.Event()
        to_server = asyncio.create_task(self._forward_questions(reader, questions, losing))
        to_client = asyncio.create_task(self._forward_answers(answers, writer, losing))
        try:
            # A client that goes without a word leaves its server none either, as over a single connection.
            await asyncio.wait((to_server, to_client), return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_server.cancel()
            to_client.cancel()
            await asyncio.gather(to_server, to_client, return_exceptions=True)
            questions.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.database.direct_dsn)
        folder = parse_qs(parts.query).get("host", [""])[0]
        if folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{parts.port or 5432}")
        return await asyncio.open_connection(parts.hostname or "localhost", parts.port or 5432)

    async def _forward_questions(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: asyncio.Event
    ) -> None:
        # The first message, of the start-up, has no type.
        await self._pass_on(await _message(reader, typed=False), writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                message = await _message(reader)
                self.sent.append(message[:1].decode())
                if message[:1] in _EXECUTES:
                    self.executions += 1
                    if self.executions == self.cut_before:
                        return
                    if self.executions == self.lose_answer_to:
                        losing.set()
                await self._pass_on(message, writer)

    async def _forward_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: asyncio.Event
    ) -> None:
        while True:
            message = await _message(reader)
            if losing.is_set():
                if message[:1] == _READY_FOR_QUERY:
                    return
                continue
            await self._pass_on(message, writer)
            if message[:1] == _READY_FOR_QUERY:
                self.round_trips += 1

    async def _pass_on(self, message: bytes, writer: asyncio.StreamWriter) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        writer.write(message)
        await writer.drain()


async def _message(reader: asyncio.StreamReader, *, typed: bool = True) -> bytes:
    """Read one message, whole."""
    kind = await reader.readexactly(1) if typed else b""
    length = await reader.readexactly(4)
    return kind + length + await reader.readexactly(int.from_bytes(length, "big") - 4)


@asynccontextmanager
async def proxied(database: Database) -> AsyncIterator[Proxy]:
    proxy = Proxy(database)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
