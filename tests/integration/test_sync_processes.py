"""The synchronous classes in processes of their own: signals, forks, the interpreter's exit."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import asyncpg
import pytest

from postgres_memory.sync import SyncPostgresMemory
from tests.conftest import Database


def program(body: str, *options: str) -> list[str]:
    head = "import os, sys, threading, time\nfrom postgres_memory.sync import *\ndsn = os.environ['DSN']\n"
    return [sys.executable, "-W", "error", *options, "-c", head + body]


def run(database: Database, body: str, *options: str) -> str:
    done = subprocess.run(
        program(body, *options),
        env={**os.environ, "DSN": database.dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


FORGOTTEN = """
memory = SyncPostgresMemory(dsn)
session = SyncPostgresSession(dsn)
session.add_messages([{"role": "user"}])
memory.store("some text")
memory.search("some text")
print(time.monotonic())
"""


def test_what_was_forgotten_is_closed_at_exit(database: Database) -> None:
    ended = float(run(database, FORGOTTEN))
    assert time.monotonic() - ended < 10
    with SyncPostgresMemory(database.dsn) as memory:
        (record,) = memory.find().items
        # The search was noted, though notes are written in batches.
        assert memory.get(record.id).access_count == 1


def test_a_transaction_left_open_does_not_hold_the_exit(database: Database) -> None:
    body = """
import logging
logging.basicConfig(stream=sys.stdout)
memory = SyncPostgresMemory(dsn)
block = memory.transaction()
tx = block.__enter__()
tx.store("never committed")
entered = threading.Event()
def hang():
    with memory.transaction() as tx:
        entered.set()
        time.sleep(60)
threading.Thread(target=hang, daemon=True).start()
assert entered.wait(30)
print(time.monotonic())
"""
    ended, _, logged = run(database, body).partition("\n")
    assert time.monotonic() - float(ended) < 15
    assert "a call or a transaction was still open" in logged
    with SyncPostgresMemory(database.dsn) as memory:
        assert memory.count() == 0


def test_what_is_freed_after_the_object_was_closed_says_nothing(database: Database) -> None:
    body = """
import logging
logging.basicConfig(stream=sys.stdout)
memory = SyncPostgresMemory(dsn)
memory.enable_changes()
memory.store("some text")
feed = memory.changes()
next(feed)
block = memory.transaction()
block.__enter__().store("never committed")
"""
    run(database, body)


FORK = """
memory = SyncPostgresMemory(dsn)
unused = SyncPostgresMemory(dsn)
memory.store("by the parent")
child = os.fork()
if child == 0:
    for call in (memory.count, memory.transaction().__enter__, memory.__enter__):
        try:
            call()
        except Exception as error:
            print(type(error).__name__, error)
    memory.close()
    unused.store("by the child")
    with SyncPostgresMemory(dsn) as own:
        print(own.count(), flush=True)
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
unused.store("by the parent")
print(memory.count())
"""


def test_a_forked_child_is_told_and_does_not_hang(database: Database) -> None:
    printed = run(database, FORK, "-W", "ignore::DeprecationWarning").splitlines()
    assert [line.partition(" ")[0] for line in printed] == ["UsageError"] * 3 + ["2", "3"]
    assert "used before os.fork()" in printed[0]


INTERRUPTED = """
import signal
memory = SyncPostgresMemory(dsn)
memory.open()
if sys.argv[1:] == ["alarm"]:
    def on_alarm(*_):
        raise LookupError("time is up")
    signal.signal(signal.SIGALRM, on_alarm)
print("ready", flush=True)
try:
    BLOCKED
except (KeyboardInterrupt, LookupError) as error:
    print(type(error).__name__, flush=True)
sys.stdin.readline()
print(memory.count())
"""


@pytest.mark.parametrize(
    ("blocked", "sent", "raised"),
    [
        ("memory.store('interrupted')", signal.SIGINT, "KeyboardInterrupt"),
        ("memory.store('interrupted')", signal.SIGALRM, "LookupError"),
        ("memory.add_many(iter(['interrupted']))", signal.SIGINT, "KeyboardInterrupt"),
        ("with memory.transaction() as tx: tx.store('interrupted')", signal.SIGINT, "KeyboardInterrupt"),
    ],
)
async def test_an_interrupt_cancels_the_call(
    database: Database, blocked: str, sent: int, raised: str
) -> None:
    lock = await asyncpg.connect(database.direct_dsn)
    process = await asyncio.create_subprocess_exec(
        *program(INTERRUPTED.replace("BLOCKED", blocked)),
        "alarm" if sent == signal.SIGALRM else "",
        env={**os.environ, "DSN": database.dsn},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    try:
        async with lock.transaction():
            await lock.execute("LOCK TABLE memory.memories")
            assert await process.stdout.readline() == b"ready\n"
            await waiting(lock, 1)
            process.send_signal(sent)
            assert await asyncio.wait_for(process.stdout.readline(), 20) == f"{raised}\n".encode()
            # The statement was cancelled on the server too, not only no longer waited for.
            await waiting(lock, 0)
        process.stdin.write(b"\n")
        assert await asyncio.wait_for(process.stdout.read(), 20) == b"0\n"
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await lock.close()


async def waiting(connection: asyncpg.Connection[asyncpg.Record], count: int) -> None:
    """Wait until ``count`` statements of this database wait for a lock."""
    query = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
        "WHERE NOT granted AND datname = current_database()"
    )
    for _ in range(1000):
        if await connection.fetchval(query) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"there were never {count} waiting statements")
