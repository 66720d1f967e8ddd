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
_COPY_DATA = b"d"
#: How many bytes come at a time from a proxy that is ``piecemeal``.
_PIECE = 7


@dataclass(slots=True)
class Proxy:
    """``silent`` connections are accepted and never answered; ``delay`` is added to each answer, in seconds."""

    database: Database
    port: int = 0
    silent: bool = False
    delay: float = 0.0
    #: Counts what is executed; the answer to the execution of this number is lost (and to so many after it), or the
    #: connection before it.
    executions: int = 0
    lose_answer_to: int = 0
    lose_answers_after: int = 0
    cut_before: int = 0
    #: Of so many COMMITs, one loses its answer; of so many pieces of a COPY, one comes only in part; 0 for none.
    #: A connection that ``holds_copies`` takes nothing more when one begins.
    lose_one_commit_of: int = 0
    cut_one_copy_of: int = 0
    holds_copies: bool = False
    #: Answers come a few bytes at a time.
    piecemeal: bool = False
    #: Connections swallow everything, for ever; those that are made later do not, if it is over then.
    black_hole: bool = False
    commits: int = 0
    copies: int = 0
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

    def cut(self) -> int:
        """Cut every connection there is, and return how many."""
        for link in self._links:
            link.cancel()
        return len(self._links)

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
                    if self._is_lost() or self._loses(message):
                        losing.set()
                elif message[:1] == _COPY_DATA and self.holds_copies:
                    self.copies += 1
                    await asyncio.Event().wait()
                elif message[:1] == _COPY_DATA and self._cuts():
                    writer.write(message[: len(message) // 2])
                    await writer.drain()
                    return
                await self._pass_on(message, writer)

    def _is_lost(self) -> bool:
        first = self.lose_answer_to
        return bool(first) and first <= self.executions <= first + self.lose_answers_after

    def _loses(self, message: bytes) -> bool:
        if b"COMMIT" not in message:
            return False
        self.commits += 1
        return bool(self.lose_one_commit_of) and self.commits % self.lose_one_commit_of == 0

    def _cuts(self) -> bool:
        self.copies += 1
        return bool(self.cut_one_copy_of) and self.copies % self.cut_one_copy_of == 0

    async def _forward_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: asyncio.Event
    ) -> None:
        while True:
            message = await _message(reader)
            if losing.is_set():
                if message[:1] == _READY_FOR_QUERY:
                    return
                continue
            if self.piecemeal:
                for start in range(0, len(message), _PIECE):
                    await self._pass_on(message[start : start + _PIECE], writer)
                    await asyncio.sleep(0)
            else:
                await self._pass_on(message, writer)
            if message[:1] == _READY_FOR_QUERY:
                self.round_trips += 1

    async def _pass_on(self, message: bytes, writer: asyncio.StreamWriter) -> None:
        if self.black_hole:
            await asyncio.Event().wait()
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
