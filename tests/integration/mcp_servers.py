"""MCP servers in processes of their own, and the official client to talk to them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from postgres_memory import PostgresMemory
from postgres_memory.mcp.server import build_server
from postgres_memory.mcp.settings import Settings, Toolset
from tests.integration.command import COMMAND

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from tests.conftest import Database

TOKEN = "a-token-of-the-tests-0123456789"
KNOWLEDGE_GRAPH = ("--tools", "knowledge-graph")
GRAPH = Settings(Toolset.KNOWLEDGE_GRAPH)


class CallError(Exception):
    """A tool answered with an error."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls tools and returns their structured content."""

    client: Client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            raise CallError(text_of(result))
        return result.structured_content

    async def problem(self, tool: str, **arguments: Any) -> str:
        """Return the error of a call that must fail."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result
        return text_of(result)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


def environment(database: Database, **more: str) -> dict[str, str]:
    return os.environ | {"POSTGRES_MEMORY_DSN": database.dsn} | more


def process(database: Database, *arguments: str, **more: str) -> StdioServerParameters:
    """Return how a client starts a server for itself."""
    command, *rest = COMMAND
    return StdioServerParameters(
        command=command, args=[*rest, "mcp", *arguments], env=environment(database, **more)
    )


@asynccontextmanager
async def inside(
    database: Database, settings: Settings | None = None, *, namespace: str = "default"
) -> AsyncIterator[Caller]:
    """Serve in the process of the test, which is a matter of milliseconds rather than seconds."""
    async with (
        PostgresMemory(database.dsn, namespace=namespace) as memory,
        Client(build_server(memory, settings or Settings())) as client,
    ):
        yield Caller(client)


@asynccontextmanager
async def over_stdio(
    database: Database, *arguments: str, mode: Any = "auto", **more: str
) -> AsyncIterator[Caller]:
    async with Client(process(database, *arguments, **more), mode=mode) as client:
        yield Caller(client)


@asynccontextmanager
async def http_server(database: Database, *arguments: str, **more: str) -> AsyncIterator[str]:
    """Give the URL of a server that listens."""
    port = free_port()
    started = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("mcp", "--transport", "http", "--port", str(port), *arguments),
        env=environment(database, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        await _listening(port, started)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        if started.returncode is None:
            started.terminate()
        out, logged = await asyncio.wait_for(started.communicate(), 20)
        assert (started.returncode, out) == (0, b""), logged.decode()
        assert logged.startswith(b"postgres-memory: serving namespace"), logged.decode()
        assert b"Traceback" not in logged, logged.decode()


@asynccontextmanager
async def over_http(url: str, *, token: str | None = None, mode: Any = "auto") -> AsyncIterator[Caller]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Caller(client)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def _listening(port: int, started: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(30):
        while True:
            assert started.returncode is None
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
