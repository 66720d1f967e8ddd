"""The page on MCP, followed to the letter: what it has clients start does start and offers what the page says."""

from __future__ import annotations

import json
import re
from typing import Any

from mcp.client import Client

from tests.acceptance.test_docs import DOCS
from tests.conftest import Database
from tests.integration.mcp_servers import process

PAGE = (DOCS / "howto" / "serve-memories-over-mcp.md").read_text()
MEMORY_TOOLS = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))


def servers() -> list[dict[str, Any]]:
    blocks = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [server for block in blocks for server in json.loads(block)["mcpServers"].values()]


async def test_every_server_of_the_page_starts(database: Database) -> None:
    assert len(MEMORY_TOOLS) == 8
    started = [server for server in servers() if "command" in server]
    assert len(started) == 3
    for server in started:
        assert server["command"] == "postgres-memory"
        first, *arguments = server["args"]
        assert first == "mcp"
        async with Client(process(database, *arguments)) as client:
            offered = {tool.name for tool in (await client.list_tools()).tools}
        if "knowledge-graph" in arguments:
            assert len(offered) == 9
            assert all(f"`{name}`" in PAGE for name in offered)
        else:
            assert offered == MEMORY_TOOLS
