"""The server: its tools, and how long it runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import ConfigurationError
from .settings import Settings, Toolset

try:
    import mcp_types as types
    from mcp.server import Server, ServerRequestContext
    from mcp.shared.exceptions import MCPError
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"the package {error.name} is missing: pip install 'postgres-memory[mcp]'"
    ) from error

from . import graph_tools, memory_tools
from .http import serve_http
from .stdio import serve_stdio

if TYPE_CHECKING:
    from ..postgres import PostgresMemory
    from .tool import Tool

Context = ServerRequestContext[Any]


def build_server(memory: PostgresMemory, settings: Settings) -> Server[Any]:
    """Return a server with the tools that ``settings`` name, on ``memory``, whichever transport it is served over."""
    if settings.toolset is Toolset.KNOWLEDGE_GRAPH:
        instructions = graph_tools.INSTRUCTIONS
        offered = graph_tools.graph_tools(memory, settings.bounds)
    else:
        verbs = memory if settings.principal is None else memory.as_principal(settings.principal)
        instructions = memory_tools.INSTRUCTIONS
        offered = list(memory_tools.memory_tools(verbs, settings.bounds))
    tools: dict[str, Tool[Any, Any]] = {tool.name: tool for tool in offered}
    described = [tool.described() for tool in offered]

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=described)

    async def call_tool(_: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name not in tools:
            raise MCPError(
                types.INVALID_PARAMS, f"there is no tool of this name; there are {', '.join(tools)}"
            )
        return await tools[asked.name].answer(asked.arguments or {})

    return Server(
        "postgres-memory",
        version=__version__,
        title="postgres-memory",
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(memory: PostgresMemory, settings: Settings) -> None:
    """Serve ``memory`` until the client is gone or the process is told to end.

    Raises KeyboardInterrupt where that was Ctrl-C, and what opening the memory raises before anybody is served.
    """
    await memory.open()
    server = build_server(memory, settings)
    if settings.address is None:
        await until_told(serve_stdio(server))
    else:
        await until_told(serve_http(server, settings.address))


_ENDING = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until it is done or the process is told to end by a signal, which cancels it."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    told: list[signal.Signals] = []

    def tell(by: signal.Signals) -> None:
        told.append(by)
        task.cancel()

    # What is ignored, as SIGHUP by nohup, stays so.
    telling = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    for one in telling:
        loop.add_signal_handler(one, tell, one)
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        for one in telling:
            loop.remove_signal_handler(one)
    if signal.SIGINT in told:
        raise KeyboardInterrupt
