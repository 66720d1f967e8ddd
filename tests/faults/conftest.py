"""What breaks, as fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ..conftest import Database
from ..integration.proxy import Proxy, proxied


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    """A TCP proxy before a migrated database."""
    async with proxied(database) as given:
        yield given
