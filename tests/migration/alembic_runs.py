"""Running Alembic as a user would: its command in a process of its own, at the top of the checkout."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.script import ScriptDirectory

import postgres_memory
from postgres_memory.config import Dsn
from postgres_memory.migrations import alembic_config, migration_connection

if TYPE_CHECKING:
    from sqlalchemy import Connection as SyncConnection

CHECKOUT = Path(__file__).parent.parent.parent
SOURCE = Path(postgres_memory.__file__).parent.parent


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that finds the package and no database but the one named."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "PYTHONPATH")}
    return kept | {"PYTHONPATH": str(SOURCE), "POSTGRES_MEMORY_DSN": ""} | variables


def alembic(*arguments: str, dsn: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``alembic ARGUMENTS`` and return what it printed; the caller looks at the exit status."""
    return subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=CHECKOUT,
        env=environment(POSTGRES_MEMORY_DSN=dsn, **variables),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


async def run_alembic(*arguments: str, dsn: str) -> subprocess.CompletedProcess[str]:
    """Run it without blocking the event loop."""
    return await asyncio.to_thread(alembic, *arguments, dsn=dsn)


async def downgrade(dsn: str, revision: str, schema: str = "memory", **options: str) -> None:
    """Downgrade in this process, which is much quicker than another one."""

    def run(connection: SyncConnection) -> None:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)

    config = alembic_config()
    config.attributes.update(options | {"schema": schema})
    async with migration_connection(Dsn(dsn)) as connection:
        await connection.run_sync(run)


def revisions() -> list[str]:
    """Return the numbers of all revisions, the first one first."""
    scripts = ScriptDirectory.from_config(alembic_config())
    return [script.revision for script in scripts.walk_revisions()][::-1]
