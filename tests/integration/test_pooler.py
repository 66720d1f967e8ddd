"""Behind PgBouncer in transaction mode: few server connections, many clients, prepared statements kept or not."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import MIGRATION_DSN_VARIABLE
from postgres_memory.errors import ConfigurationError, DatabaseError, UsageError
from tests.conftest import POOLER, Database, Server
from tests.embedders import WordEmbedder
from tests.pooler import find_pooler, pooler

SERVER_CONNECTIONS = 4
TASKS = 32


def options(program: str, *, prepares: bool) -> dict[str, object]:
    """What makes PgBouncer prepare statements wherever they are wanted, or not; before 1.21 it cannot."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert found is not None, said
    can = (int(found[1]), int(found[2])) >= (1, 21)
    if prepares and not can:
        pytest.skip(f"PgBouncer {found[1]}.{found[2]} cannot prepare statements again; 1.21 and newer can")
    return {"max_prepared_statements": 200 if prepares else 0} if can else {}


@pytest.fixture(scope="module", params=[False, True], ids=["unprepared", "prepared"])
def pooled(request: pytest.FixtureRequest, server: Server) -> Iterator[Server]:
    """The server of this run behind a pooler with few connections to it."""
    named = os.environ.get(POOLER, "pgbouncer")
    with ExitStack() as stack:
        if "://" in named:
            if not request.param:
                pytest.skip(f"{POOLER} names a pooler that runs, and is tried as it is")
            assert server.pooled_dsn is not None
            yield server
            return
        program = find_pooler(named)
        if program is None:
            pytest.skip("pgbouncer is not installed; on Debian: apt-get install pgbouncer")
        settings = options(program, prepares=request.param) | {"default_pool_size": SERVER_CONNECTIONS}
        yield Server(server.dsn, stack.enter_context(pooler(program, server.dsn, settings)))


@pytest.fixture
async def behind(pooled: Server, database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.delenv(MIGRATION_DSN_VARIABLE, raising=False)
    return Database(pooled, database.name)


async def converse(memory: PostgresMemory, task: int) -> None:
    """Call verbs of every kind, and see that each finds what the ones before it left."""
    told = [f"the plumber asked {task} euros, {number}" for number in range(3)]
    first = await memory.add(told[0], thread_id=f"t{task}", tags=["a"], metadata={"task": task})
    other = await memory.add(told[1], thread_id=f"t{task}")
    await memory.store(told[2], {"task": task})
    await memory.relate(first.id, other.id, "supports")
    assert [relation.target_id for relation in await memory.relations(first.id)] == [other.id]
    assert (await memory.search(told[0], limit=1))[0].content == told[0]
    assert any(hit.record.id == first.id for hit in await memory.recall(told[0], limit=50))
    assert (await memory.update(first.id, importance=0.9)).importance == 0.9
    assert (await memory.get(first.id)) is not None
    newer = await memory.supersede(first.id, f"it was less, {task}")
    assert len(await memory.history(newer.id)) == 2
    async with memory.transaction() as inside:
        await inside.add(f"a promise of {task}", id=f"promise-{task}")
        assert await inside.get(f"promise-{task}") is not None
    with pytest.raises(ZeroDivisionError):
        await roll_back(memory, f"nothing-{task}")
    assert (await memory.add_many([f"one of many, {task}, {number}" for number in range(20)])).stored == 20
    await memory.delete(other.id)


async def roll_back(memory: PostgresMemory, id_: str) -> None:
    async with memory.transaction() as inside:
        await inside.add("nothing", id=id_)
        raise ZeroDivisionError


async def converse_all(memory: PostgresMemory) -> None:
    results = await asyncio.gather(*(converse(memory, task) for task in range(TASKS)), return_exceptions=True)
    wrong = [result for result in results if result is not None]
    if wrong:
        raise wrong[0]


async def settings_of_server_connections(behind: Database) -> list[asyncpg.Record]:
    """Look at every server connection of the pooler, by holding all of them at once."""
    async with AsyncExitStack() as stack:
        held = []
        for _ in range(SERVER_CONNECTIONS):
            connection = await asyncpg.connect(behind.dsn, statement_cache_size=0)
            stack.push_async_callback(connection.close)
            await stack.enter_async_context(connection.transaction())
            held.append(connection)
        asked = (
            "SELECT pg_backend_pid() AS pid, (SELECT count(*) FROM pg_prepared_statements "
            "WHERE name NOT LIKE 'PGBOUNCER_%') AS prepared, (SELECT count(*) FROM pg_locks "
            "WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks, ARRAY(SELECT name || '=' || setting "
            "FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding') "
            "AND setting <> boot_val) AS changed"
        )
        return [row for connection in held for row in await connection.fetch(asked)]


async def test_many_tasks_share_few_connections(behind: Database) -> None:
    async with PostgresMemory(behind.dsn, pool_max_size=TASKS) as memory:
        await converse_all(memory)
        assert await memory.count() == TASKS * 23
        assert (await memory.verify()).ok
    for row in await settings_of_server_connections(behind):
        assert (row["prepared"], row["locks"], row["changed"]) == (0, 0, [])


@pytest.mark.parametrize("pooled", [False], ids=["unprepared"], indirect=True)
async def test_what_it_is_for(behind: Database) -> None:
    """A pool that keeps statements prepared fails where the pooler loses them, and the error says what to do."""
    async with asyncpg.create_pool(behind.dsn, min_size=TASKS, max_size=TASKS) as pool:
        memory = PostgresMemory(pool, access_tracking="off")
        with pytest.raises(DatabaseError, match="statement_cache_size=0") as caught:
            await asyncio.gather(*(converse_all(memory) for _ in range(3)))
        assert caught.value.sqlstate in {"26000", "42P05"}


async def test_a_borrowed_pool_made_for_it(behind: Database) -> None:
    async with asyncpg.create_pool(behind.dsn, max_size=TASKS, statement_cache_size=0) as pool:
        await converse_all(PostgresMemory(pool, access_tracking="off"))


@pytest.fixture
async def described(behind: Database) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(behind.dsn, embedder=WordEmbedder()) as memory:
        await memory.add_many([f"word {number}" for number in range(50)])
        yield memory


async def test_an_index_is_built_past_the_pooler(
    behind: Database, described: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in (described.create_index("words"), described.drop_index("words")):
        with pytest.raises(ConfigurationError, match=rf"migration_dsn= or {MIGRATION_DSN_VARIABLE}"):
            await call
    assert (await settings_of_server_connections(behind))[0]["changed"] == []
    direct = behind.direct_dsn
    async with PostgresMemory(behind.dsn, embedder=WordEmbedder(), migration_dsn=direct) as memory:
        assert (await memory.create_index("words")).kind == "hnsw"
        assert await memory.drop_index("words")
    monkeypatch.setenv(MIGRATION_DSN_VARIABLE, direct)
    assert (await described.create_index("words")).kind == "hnsw"


async def test_migrating_through_the_pooler_keeps_the_lock(
    pooled: Server, empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MIGRATION_DSN_VARIABLE, raising=False)
    dsn = Database(pooled, empty_database.name).dsn
    assert await asyncio.gather(*(PostgresMemory(dsn).migrate() for _ in range(2))) == [REVISION] * 2


async def test_migrations_go_where_the_variable_says(
    pooled: Server, empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = pooled.dsn_of("there_is_no_such_database", pooled=True)
    monkeypatch.setenv(MIGRATION_DSN_VARIABLE, empty_database.direct_dsn)
    assert await PostgresMemory(nowhere).migrate() == REVISION
    async with asyncpg.create_pool(empty_database.direct_dsn, min_size=1, max_size=1) as pool:
        assert await PostgresMemory(pool).migrate() == REVISION
        monkeypatch.delenv(MIGRATION_DSN_VARIABLE)
        with pytest.raises(UsageError, match="migration_dsn="):
            await PostgresMemory(pool).migrate()
        assert await PostgresMemory(pool, migration_dsn=empty_database.direct_dsn).migrate() == REVISION
