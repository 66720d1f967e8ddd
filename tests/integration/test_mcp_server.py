"""The server as a process: what it writes where, how it ends, and whom it lets in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import ConfigurationError
from postgres_memory.mcp.settings import Address
from tests.conftest import Database
from tests.integration.command import COMMAND
from tests.integration.mcp_servers import (
    TOKEN,
    Caller,
    environment,
    http_server,
    inside,
    over_http,
    over_stdio,
)
from tests.integration.test_cli_export import run

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}
ACCEPTING = {"Accept": "application/json, text/event-stream"}


def message(method: str, number: int | None = None, **params: Any) -> bytes:
    asked: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(asked if number is None else asked | {"id": number}).encode() + b"\n"


@asynccontextmanager
async def raw(database: Database, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server of stdio that was greeted, and its pipes."""
    started = await asyncio.create_subprocess_exec(
        *COMMAND,
        "mcp",
        *arguments,
        env=environment(database),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdin
    started.stdin.write(message("initialize", 1, **HELLO) + message("notifications/initialized"))
    try:
        assert (await answer(started))["result"]["serverInfo"]["name"] == "postgres-memory"
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.communicate()


async def answer(started: asyncio.subprocess.Process) -> Any:
    assert started.stdout
    line = await asyncio.wait_for(started.stdout.readline(), 60)
    return json.loads(line)


async def connections(database: Database) -> int:
    """Return how many connections the database has beside the one that asks."""
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        count = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("ending", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_stdout_is_the_protocols_and_the_end_is_clean(
    database: Database, ending: signal.Signals | None
) -> None:
    async with raw(database, "--debug") as started:
        assert started.stdin
        call = {"name": "store_memory", "arguments": {"content": "kept"}}
        started.stdin.write(b"no JSON\n" + message("tools/call", 2, **call))
        answered = await answer(started)
        assert (answered["id"], answered["result"]["isError"]) == (2, False)
        assert await connections(database) > 0
        if ending is None:
            started.stdin.close()
        else:
            started.send_signal(ending)  # its client does not close its end
        assert started.stdout
        assert started.stderr
        rest, logged = await asyncio.wait_for(
            asyncio.gather(started.stdout.read(), started.stderr.read()), 30
        )
        assert rest == b""
        assert await started.wait() == (130 if ending is signal.SIGINT else 0)
        assert b"DEBUG" in logged
        assert b"password" not in logged
    async with asyncio.timeout(10):
        while True:
            if not await connections(database):
                break
            await asyncio.sleep(0.05)
    async with PostgresMemory(database.dsn) as memory:
        assert await memory.count() == 1


async def test_a_client_that_is_gone_is_no_error(database: Database) -> None:
    assert await asyncio.to_thread(left_by_its_client, environment(database)) == (0, b"")


def left_by_its_client(variables: dict[str, str]) -> tuple[int, bytes]:
    """Ask a server something and do not wait for the answer; return how it ended and what it logged."""
    with subprocess.Popen(
        [*COMMAND, "mcp"],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert started.stdin
        assert started.stdout
        assert started.stderr
        started.stdin.write(message("initialize", 1, **HELLO) + message("notifications/initialized"))
        started.stdin.flush()
        started.stdout.readline()
        started.stdout.close()
        started.stdin.write(message("tools/list", 2))
        started.stdin.flush()
        logged = started.stderr.read()
        return started.wait(60), logged


async def test_it_ends_at_once_where_nothing_comes(database: Database) -> None:
    done = run(database, "mcp")  # its input is empty
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_what_keeps_it_from_serving_is_said_in_a_line(empty_database: Database) -> None:
    done = run(empty_database, "mcp")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"postgres-memory migrate" in done.stderr


def test_without_its_extra_it_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None\n"
        "from postgres_memory.cli.main import main; main(['mcp', '--dsn', 'postgresql://nowhere/x'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, env=os.environ)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"pip install 'postgres-memory[mcp]'" in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.org"])
def test_it_listens_elsewhere_only_with_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="POSTGRES_MEMORY_MCP_TOKEN"):
        Address(host, allowed_hosts=("example.org",))
    assert Address(host, allowed_hosts=("example.org",), token=TOKEN).host == host
    for loopback in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert Address(loopback).token is None


def test_a_token_is_long_and_everywhere_has_a_name() -> None:
    with pytest.raises(ConfigurationError, match="at least 16"):
        Address(token="short")
    with pytest.raises(ConfigurationError, match="--allow-host"):
        Address("0.0.0.0", token=TOKEN)
    assert TOKEN not in repr(Address(token=TOKEN))


async def test_it_refuses_to_listen_elsewhere_without_a_token(database: Database) -> None:
    done = run(database, "mcp", "--transport", "http", "--host", "0.0.0.0", "--allow-host", "x")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"needs a token" in done.stderr


async def test_only_who_knows_the_token_gets_in(database: Database) -> None:
    async with http_server(database, POSTGRES_MEMORY_MCP_TOKEN=TOKEN) as url:
        async with over_http(url, token=TOKEN) as call:
            assert await call("store_memory", content="by token")
        hello = message("initialize", 1, **HELLO)
        refused: list[dict[str, str]] = [
            {},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Bearer {TOKEN[:-1]}"},
            {"Authorization": TOKEN},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": "Bearer"},
        ]
        async with httpx.AsyncClient(headers=ACCEPTING | {"Content-Type": "application/json"}) as http:
            for headers in refused:
                said = await http.post(url, content=hello, headers=headers)
                assert said.status_code == 401, headers
                assert said.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in said.text
                assert (await http.get(url.replace("/mcp", "/nothing"), headers=headers)).status_code == 401
            known = {"Authorization": f"bearer {TOKEN}"}
            assert (await http.post(url, content=hello, headers=known)).status_code == 200


async def test_a_page_elsewhere_cannot_call_it_by_a_name_of_its_own(database: Database) -> None:
    async with (
        http_server(database, "--allow-host", "memory.test") as url,
        httpx.AsyncClient(headers=ACCEPTING | {"Content-Type": "application/json"}) as http,
    ):
        hello = message("initialize", 1, **HELLO)
        for header, value, status in (
            ("Host", "evil.example", 421),
            ("Host", "localhost.evil.example:80", 421),
            ("Host", "memory.test", 200),
            ("Host", "memory.test:8080", 200),
            ("Origin", "http://evil.example", 403),
            ("Origin", "null", 403),
            ("Origin", "http://localhost:3000", 200),
        ):
            said = await http.post(url, content=hello, headers={header: value})
            assert said.status_code == status, (header, value)
        too_much = await http.post(url, content=b" " * 5_000_000 + hello)
        assert too_much.status_code == 413


async def test_a_port_that_is_taken_is_said_in_a_line(database: Database) -> None:
    async with http_server(database) as url:
        port = url.split(":")[2].removesuffix("/mcp")
        done = await asyncio.to_thread(run, database, "mcp", "--transport", "http", "--port", port)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"cannot listen on 127.0.0.1 port {port}".encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("transport", ["stdio", "http", "legacy"])
async def test_a_call_that_its_client_cancels_is_rolled_back(database: Database, transport: str) -> None:
    async with PostgresMemory(database.dsn) as memory:
        held = await memory.add("held")
    if transport == "http":
        async with http_server(database) as url, over_http(url) as call:
            await cancelled(database, call, held.id)
    else:
        async with over_stdio(database, mode="legacy" if transport == "legacy" else "auto") as call:
            await cancelled(database, call, held.id)


async def cancelled(database: Database, call: Caller, id: str) -> None:
    async with (
        asyncpg.create_pool(database.direct_dsn, min_size=2, max_size=2) as pool,
        pool.acquire() as watching,
        pool.acquire() as holding,
        holding.transaction(),
    ):
        await holding.execute("SELECT 1 FROM memory.memories WHERE id = $1 FOR UPDATE", id)
        waiting = asyncio.ensure_future(call("update_memory", id=id, content="changed"))
        await until_waiting(watching, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_waiting(watching, 0)  # the server has given up too, while the lock is held
    whole = await call("get_memory", id=id)
    assert (whole["content"], whole["version"]) == ("held", 1)


async def until_waiting(connection: Any, count: int) -> None:
    """Wait until so many statements wait for a lock."""
    async with asyncio.timeout(20):
        while True:
            waiting = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'"
            )
            if waiting == count:
                return
            await asyncio.sleep(0.05)


async def test_an_outage_is_told_without_names(database: Database) -> None:
    async with inside(database) as call:
        await call("store_memory", content="before")
        await database.server.drop_database(database.name)
        problems = [
            await call.problem("store_memory", content="after"),
            await call.problem("search_memories", query="before"),
        ]
        for problem in problems:
            assert "Error" in problem
            assert database.name not in problem
            assert "Traceback" not in problem
            assert "postgresql:" not in problem
