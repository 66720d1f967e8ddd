"""Ends with 0 where the memory that the environment names is well; says what is not, and ends with 1, elsewhere."""

import asyncio
import os
import sys

from postgres_memory import PostgresMemory
from postgres_memory.config import DSN_VARIABLES


async def problems() -> tuple[str, ...]:
    """Return what `PostgresMemory.health` finds, on a connection of its own."""
    memory = PostgresMemory(access_tracking="off")
    try:
        return (await memory.health()).problems
    finally:
        await memory.close()


if not any(os.environ.get(variable) for variable in DSN_VARIABLES):
    sys.exit(f"set {' or '.join(DSN_VARIABLES)}")
found = asyncio.run(problems())
sys.exit("; ".join(found) if found else 0)
