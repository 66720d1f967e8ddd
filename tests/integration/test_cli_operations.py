"""The commands for whoever runs the database: migrating, purging, erasing; and what Ctrl-C leaves of each."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.migrations import migrate

from ..migration.catalog import read_catalog
from .command import Outcome, caller, execute, interrupted, line, started, stored, wait_until
from .embedded_folders import empty_folder, server_pid
from .test_isolation import dsn_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Database

HERE = "datname = current_database()"  # other tests have databases on the same server


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    monkeypatch.delenv("POSTGRES_MEMORY_PRINCIPAL_ROLE", raising=False)
    return caller(monkeypatch, capsys)


class TestMigrate:
    def test_step_by_step_with_checks(self, run: Callable[..., Outcome], empty_database: Database) -> None:
        at = ("--dsn", empty_database.dsn)
        none = run("migrate", "--check", *at)
        assert none == Outcome(1, f"schema 'memory' is not there, the newest is {REVISION}\n", "")
        assert run("migrate", "--to", "0010", *at).out == "schema 'memory' is at revision 0010\n"
        old = run("migrate", "--check", "--json", *at)
        assert (old.status, json.loads(old.out)) == (
            1,
            {"schema": "memory", "revision": "0010", "newest": REVISION, "up_to_date": False},
        )
        assert json.loads(run("migrate", "--json", *at).out) == {"schema": "memory", "revision": REVISION}
        assert run("migrate", "--check", *at).status == 0
        assert run("migrate", "--to", "0003", *at).out == f"schema 'memory' is at revision {REVISION}\n"

    @pytest.mark.parametrize("stop", [None, "0011"])
    def test_the_script_makes_the_same(
        self, run: Callable[..., Outcome], empty_database: Database, database: Database, stop: str | None
    ) -> None:
        scripts = [run("migrate", "--sql", *(("--to", stop) if stop else ()))]
        if stop:
            scripts.append(run("migrate", "--sql", "--from", stop))
        for script in scripts:
            assert (script.status, script.err) == (0, "")
            execute(empty_database.direct_dsn, script.out)
        made, wanted = (asyncio.run(read_catalog(one.direct_dsn)) for one in (empty_database, database))
        assert made == wanted
        assert run("migrate", "--check", "--dsn", empty_database.dsn).status == 0

    def test_another_role_of_principals(
        self, run: Callable[..., Outcome], empty_database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        role = f"{empty_database.name} 'prince'"
        at = ("--dsn", empty_database.dsn)
        assert role.replace("'", "''") in run("migrate", "--sql", "--principal-role", role).out
        try:
            assert run("migrate", "--principal-role", role, *at).status == 0
            monkeypatch.setenv("POSTGRES_MEMORY_PRINCIPAL_ROLE", role)
            assert run("store", "mine", "--as", "ana", *at).status == 0
            assert run("count", "--as", "ben", *at).out == "0\n"
            monkeypatch.setenv("POSTGRES_MEMORY_PRINCIPAL_ROLE", "no such role")
            assert run("count", "--as", "ben", *at).status == 2
        finally:
            execute(empty_database.direct_dsn, f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--check", "--sql"),
            ("--check", "--to", "0003"),
            ("--from", "0003"),
            ("--principal-role", ""),
            ("--sql", "--principal-role", "pg_mine"),
            ("--sql", "--schema", "pg_mine"),
        ],
    )
    def test_wrong_use(
        self, run: Callable[..., Outcome], empty_database: Database, wrong: tuple[str, ...]
    ) -> None:
        outcome = run("migrate", *wrong, "--dsn", empty_database.dsn)
        assert (outcome.status, outcome.out) == (2, "")
        assert run("migrate", "--check", "--dsn", empty_database.dsn).status == 1

    @pytest.mark.parametrize(
        ("arguments", "complained"),
        [
            (("--to", "0999"), f"--to: must be 'head' or one of '0001' to '{REVISION}'"),
            (("--to", "+1"), f"--to: must be 'head' or one of '0001' to '{REVISION}'"),
            (("--sql", "--to", "1"), f"--to: must be 'head' or one of '0001' to '{REVISION}'"),
            (("--sql", "--from", "0999"), f"--from: must be 'base' or one of '0001' to '{REVISION}'"),
            (("--sql", "--from", "head"), f"--from: must be 'base' or one of '0001' to '{REVISION}'"),
        ],
    )
    def test_revisions_that_there_are_not(
        self, run: Callable[..., Outcome], arguments: tuple[str, ...], complained: str
    ) -> None:
        assert run("migrate", *arguments) == Outcome(2, "", f"postgres-memory: {complained}\n")

    def test_a_schema_that_may_not_be_read_is_not_one_that_is_missing(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        login = f"{database.name}_stranger"
        execute(database.direct_dsn, f"CREATE ROLE {login} LOGIN")
        try:
            outcome = run("migrate", "--check", "--dsn", dsn_as(database, login))
            assert (outcome.status, outcome.out) == (1, "")
            assert "permission denied" in outcome.err
        finally:
            execute(database.direct_dsn, f"DROP ROLE {login}")


class TestMigrateEmbedded:
    @pytest.fixture
    def folder(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        with empty_folder() as folder:
            monkeypatch.setenv("POSTGRES_MEMORY_EMBEDDED_DIR", str(folder))
            yield folder

    def test_a_check_changes_nothing(self, run: Callable[..., Outcome], folder: Path) -> None:
        missing = f"schema 'memory' is not there, the newest is {REVISION}\n"
        for _ in range(2):
            assert run("migrate", "--check") == Outcome(1, missing, "")
        assert list(folder.iterdir()) == []
        assert run("migrate", "--to", "0003").out == "schema 'memory' is at revision 0003\n"
        for _ in range(2):
            old = run("migrate", "--check")
            assert old == Outcome(1, f"schema 'memory' is at revision 0003, the newest is {REVISION}\n", "")
        assert run("count").out == "0\n"
        assert run("migrate", "--check").status == 0
        assert server_pid(folder) is None

    @pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    @pytest.mark.parametrize("ignoring", [False, True], ids=["", "SIGINT ignored"])
    def test_a_signal_ends_a_command_and_its_server(
        self, folder: Path, sent: signal.Signals, *, ignoring: bool
    ) -> None:
        """A shell that is no terminal's starts what is in its background with SIGINT ignored."""
        if ignoring and sent == signal.SIGINT:
            pytest.skip("what is ignored ends nothing")
        entry = [sys.executable, "-c", "from postgres_memory.cli.entry import main; main()"]
        before = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignoring else []
        process = subprocess.Popen(
            [*before, *entry, "import", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert process.stdin is not None
            process.stdin.write(line("more than a batch") * 600)
            process.stdin.flush()
            wait_until(lambda: server_pid(folder) is not None)
            process.send_signal(sent)
            _, complained = process.communicate(timeout=30)
        finally:
            process.kill()
        assert process.returncode == 128 + sent
        assert complained.decode().startswith("postgres-memory: interrupted\n")
        assert server_pid(folder) is None


class TestErase:
    @pytest.fixture(autouse=True)
    def _three(
        self, run: Callable[..., Outcome], database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
        monkeypatch.setenv("POSTGRES_MEMORY_NAMESPACE", "bot")
        run("store", "of ana", "--id", "a", "--owner", "ana")
        run("store", "of ben", "--id", "b", "--owner", "ben", "--reader", "ana")
        run("relate", "a", "b", "supports")
        run("store", "elsewhere", "--namespace", "default")

    def test_a_dry_run_says_what_the_command_does(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        counted = json.loads(run("erase", "bot", "--dry-run", "--json").out)
        assert (counted["dry_run"], counted["memories"], counted["relations"]) == (True, 2, 1)
        assert len(stored(database.direct_dsn, "bot")) == 2
        assert "would be deleted" in run("erase", "bot", "--dry-run").out
        erased = json.loads(run("erase", "bot", "--yes", "--json").out)
        kept = {"dry_run", "write_tokens"}
        assert {k: v for k, v in erased.items() if k not in kept} == {
            k: v for k, v in counted.items() if k not in kept
        }
        assert stored(database.direct_dsn, "bot") == []
        assert len(stored(database.direct_dsn)) == 1

    def test_a_principal(self, run: Callable[..., Outcome], database: Database) -> None:
        shown = run("erase", "bot", "--principal", "ana", "--yes").out
        assert "access lists" in shown
        assert [content for content, _ in stored(database.direct_dsn, "bot")] == ["of ben"]
        assert json.loads(run("get", "b", "--json").out)["permissions"]["readers"] == []

    @pytest.mark.parametrize("wrong", [(), ("",), ("bot",), ("bot", "--principal", "", "--yes")])
    def test_nothing_is_erased_by_mistake(
        self, run: Callable[..., Outcome], database: Database, wrong: tuple[str, ...]
    ) -> None:
        assert run("erase", *wrong).status == 2
        assert len(stored(database.direct_dsn, "bot")) == 2


class TestPurge:
    def test_what_has_expired_goes(
        self, run: Callable[..., Outcome], database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
        run("store", "old", "--expires-at", "2020-01-01T00:00:00Z")
        run("store", "not yet", "--expires-at", "2999-01-01T00:00:00Z")
        run("store", "lasting")
        assert run("purge", "--dry-run").out == "1 memory would be deleted\n"
        assert run("count", "--include-inactive").out == "3\n"
        assert run("purge").out == "1 memory and 0 idempotency keys deleted\n"
        assert json.loads(run("purge", "--json").out) == {
            "dry_run": False,
            "memories": 0,
            "idempotency_keys": 0,
        }
        assert [content for content, _ in stored(database.direct_dsn)] == ["not yet", "lasting"]


def number(dsn: str, query: str = "SELECT count(*) FROM memory.memories") -> int:
    async def count() -> int:
        connection = await asyncpg.connect(dsn)
        try:
            return int(await connection.fetchval(query))
        finally:
            await connection.close()

    return asyncio.run(count())


@pytest.mark.parametrize("command", [("erase", "default", "--yes"), ("purge",), ("delete", "-")])
def test_ctrl_c_leaves_whole_batches_and_the_truth_about_them(
    run: Callable[..., Outcome], database: Database, command: tuple[str, ...]
) -> None:
    many = 3000
    run("import", "-", "--dsn", database.dsn, stdin=b"".join(line(f"memory {n}") for n in range(many)))
    execute(database.direct_dsn, "UPDATE memory.memories SET id = 'id' || seq, expires_at = '2020-01-01'")
    execute(database.direct_dsn, "DELETE FROM memory.write_tokens")  # which erase would count as well
    batch = () if command[0] == "delete" else ("--batch-size", "20")
    with started(*command, *batch, dsn=database.dsn) as process:
        assert process.stdin is not None
        if command[0] == "delete":
            process.stdin.write(b"".join(b"id%d\n" % n for n in range(1, many + 1)))
            process.stdin.close()
        wait_until(lambda: number(database.direct_dsn) < many)
        status, out, last = interrupted(process)
    left = number(database.direct_dsn)
    deleted = many - left
    assert (status, out) == (130, b"")
    assert 0 < left < many
    assert last.startswith("stopped")
    if command[0] == "erase":
        # Of each memory its own row and that of its hash embedding.
        assert last == f"stopped after {2 * deleted} rows; call it again for the rest"
    else:
        assert f"stopped: {deleted} " in last
    assert deleted % 20 == 0 or command[0] == "delete"
    assert run(*command[:2], *command[2:], "--dsn", database.dsn, stdin=b"id3000\n").status == 0


async def test_ctrl_c_while_a_filter_deletes_waits_for_the_truth(database: Database) -> None:
    """One statement deletes all or none; what became of it is said."""
    async with PostgresMemory(database.dsn) as memory:
        await memory.add_many(["one", "two", "three"])
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT FROM memory.memories FOR UPDATE")
        with started("delete", "--all", "--yes", dsn=database.dsn) as process:
            waiting = f"SELECT count(*) FROM pg_stat_activity WHERE {HERE} AND wait_event_type = 'Lock'"
            await asyncio.to_thread(wait_until, lambda: number(database.direct_dsn, waiting) > 0)
            process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.5)
            assert process.poll() is None
            await transaction.rollback()
            out, err = await asyncio.to_thread(process.communicate, timeout=30)
        assert (process.returncode, out) == (130, b"")
        assert err.decode().splitlines() == [
            "postgres-memory: interrupted",
            "postgres-memory: stopped: 3 deleted",
        ]
    finally:
        await connection.close()
    assert await asyncio.to_thread(number, database.direct_dsn) == 0


async def test_ctrl_c_in_a_migration_leaves_whole_revisions(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTGRES_MEMORY_MIGRATION_DSN", raising=False)
    await migrate(Dsn(empty_database.direct_dsn), revision="0009")
    connection = await asyncpg.connect(empty_database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("LOCK memory.memories")
        with started("migrate", dsn=empty_database.dsn) as process:
            waiting = f"SELECT count(*) FROM pg_stat_activity WHERE {HERE} AND wait_event_type = 'Lock'"
            await asyncio.to_thread(wait_until, lambda: number(empty_database.direct_dsn, waiting) > 0)
            status, out, last = await asyncio.to_thread(interrupted, process)
        assert (status, out, last) == (130, b"", "the revision under way was rolled back; call it again")
        await transaction.rollback()
        assert await connection.fetchval("SELECT version_num FROM memory.alembic_version") in ("0009", "0010")
    finally:
        await connection.close()
    assert await migrate(Dsn(empty_database.direct_dsn)) == REVISION


async def test_ctrl_c_in_the_building_of_an_index_is_cleared_by_the_next_call(database: Database) -> None:
    async with PostgresMemory(database.dsn, embedder=one_vector, space="s") as memory:
        await memory.add_many(["one", "two"])
    connection = await asyncpg.connect(database.direct_dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("UPDATE memory.memory_embeddings SET embedding = embedding")
        with started("create-index", "s", dsn=database.direct_dsn) as process:
            building = f"SELECT count(*) FROM pg_stat_progress_create_index WHERE {HERE}"
            await asyncio.to_thread(wait_until, lambda: number(database.direct_dsn, building) > 0)
            await asyncio.sleep(1)  # it asks twice a second
            status, out, last = await asyncio.to_thread(interrupted, process)
        assert (status, out) == (130, b"")
        assert last.startswith("stopped while waiting for writers before build")
        await transaction.rollback()
    finally:
        await connection.close()
    async with PostgresMemory(database.direct_dsn) as memory:
        assert (await memory.create_index("s")).type == "vector"


def one_vector(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]
