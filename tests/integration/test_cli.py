"""The command line as people use it: arguments in, streams and exit status out, on a real database."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgres_memory import PostgresMemory, __version__

from .command import COMMAND, Outcome, caller, execute, line, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Database


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return caller(monkeypatch, capsys)


class TestOfTheWholeCommand:
    def test_version(self, run: Callable[..., Outcome]) -> None:
        assert run("--version") == Outcome(0, f"postgres-memory {__version__}\n", "")

    def test_help_names_the_commands_and_the_exit_statuses(self, run: Callable[..., Outcome]) -> None:
        shown = run("--help").out
        for word in ("migrate", "store", "search", "import", "verify", "demo", "Exit status", "130"):
            assert word in shown

    @pytest.mark.parametrize("command", ["migrate", "store", "search", "import", "verify", "demo"])
    def test_each_command_has_help(self, run: Callable[..., Outcome], command: str) -> None:
        outcome = run(command, "--help")
        assert outcome.status == 0
        assert "--dsn" in outcome.out

    @pytest.mark.parametrize(
        "arguments",
        [
            ("search",),
            ("search", "x", "--limit", "-1"),
            ("search", "x", "--limit", "many"),
            ("search", "x", "--dsn", "mysql://there"),
            ("search", "x", "--namespace", ""),
            ("search", "x", "--schema", "pg_mine"),
            ("store", "x", "--metadata", "{"),
            ("store", "x", "--metadata", "[]"),
            ("store", "x", "--metadata", '{"a": 1, "a": 2}'),
            ("store", "x", "--metadata", '{"a": NaN}'),
            ("import", "/no/such/file"),
            ("unknown",),
        ],
    )
    def test_wrong_use_is_status_2_and_no_traceback(
        self, run: Callable[..., Outcome], arguments: tuple[str, ...], database: Database
    ) -> None:
        named = () if "--dsn" in arguments or arguments == ("unknown",) else ("--dsn", database.dsn)
        outcome = run(*arguments, *named)
        assert outcome.status == 2
        assert outcome.out == ""
        assert outcome.err != ""
        assert "Traceback" not in outcome.err

    def test_an_error_is_one_line_and_never_shows_a_password(self, run: Callable[..., Outcome]) -> None:
        outcome = run("search", "x", "--dsn", "postgresql://me:s3cret@127.0.0.1:1/there")
        assert outcome.status == 1
        assert outcome.out == ""
        assert outcome.err.startswith("postgres-memory: ")
        assert outcome.err.count("\n") == 1
        assert "s3cret" not in outcome.err

    def test_debug_shows_the_traceback_and_no_password(self, run: Callable[..., Outcome]) -> None:
        outcome = run("search", "x", "--debug", "--dsn", "postgresql://me:s3cret@127.0.0.1:1/there")
        assert outcome.status == 1
        assert "Traceback" in outcome.err
        assert "s3cret" not in outcome.err

    def test_database_and_namespace_come_from_the_environment(
        self, run: Callable[..., Outcome], database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DATABASE_URL", database.dsn)
        monkeypatch.setenv("POSTGRES_MEMORY_NAMESPACE", "from-env")
        assert run("store", "hello").status == 0
        assert stored(database.direct_dsn, "from-env") == [("hello", {})]


class TestMigrate:
    def test_creates_the_schema_and_may_be_repeated(
        self, run: Callable[..., Outcome], empty_database: Database
    ) -> None:
        dsn = empty_database.dsn
        assert run("search", "x", "--dsn", dsn).status == 1
        first = run("migrate", "--dsn", dsn, "--schema", "agent's")
        assert first.status == 0
        assert "revision" in first.out
        assert run("migrate", "--dsn", dsn, "--schema", "agent's").out == first.out
        assert run("store", "x", "--dsn", dsn, "--schema", "agent's").status == 0

    def test_search_says_what_to_run_first(
        self, run: Callable[..., Outcome], empty_database: Database
    ) -> None:
        assert "postgres-memory migrate" in run("search", "x", "--dsn", empty_database.dsn).err


class TestStoreAndSearch:
    def test_what_is_stored_is_found(self, run: Callable[..., Outcome], database: Database) -> None:
        metadata = {"source": "chat", "n": 1e23, "naïve": ["ü"]}
        assert (
            run("store", "dark mode", "--metadata", json.dumps(metadata), "--dsn", database.dsn).status == 0
        )
        run("store", "something else", "--dsn", database.dsn)
        outcome = run("search", "dark mode", "--json", "--dsn", database.dsn)
        assert outcome.status == 0
        first, second = json.loads(outcome.out)
        assert first == {"content": "dark mode", "metadata": metadata, "score": 1.0}
        assert second["content"] == "something else"

    def test_the_table_shows_score_content_and_metadata(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        run("store", "dark [bold]mode[/bold] :smile:", "--metadata", '{"a": [1]}', "--dsn", database.dsn)
        shown = run("search", "dark [bold]mode[/bold] :smile:", "--dsn", database.dsn).out
        assert "1.00" in shown
        assert "dark [bold]mode[/bold] :smile:" in shown
        assert '{"a": [1]}' in shown

    def test_the_table_cannot_steer_the_terminal(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        run("store", "\x1b[2Jcleared\x9b", "--dsn", database.dsn)
        shown = run("search", "cleared", "--dsn", database.dsn).out
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "\\x1b[2Jcleared" in shown

    def test_the_table_says_that_it_shortens_and_json_does_not(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        long = "long " * 1000
        run("store", "-", "--dsn", database.dsn, stdin=long.encode())
        assert "(5000 characters)" in run("search", "long", "--dsn", database.dsn).out
        (entry,) = json.loads(run("search", "long", "--json", "--dsn", database.dsn).out)
        assert entry["content"] == long

    def test_limit(self, run: Callable[..., Outcome], database: Database) -> None:
        for number in range(7):
            run("store", f"memory {number}", "--dsn", database.dsn)
        for limit, expected in (("0", 0), ("3", 3), ("100", 7)):
            outcome = run("search", "memory", "--json", "--limit", limit, "--dsn", database.dsn)
            assert len(json.loads(outcome.out)) == expected
        assert len(json.loads(run("search", "memory", "--json", "--dsn", database.dsn).out)) == 5

    def test_nothing_found(self, run: Callable[..., Outcome], database: Database) -> None:
        assert run("search", "x", "--json", "--dsn", database.dsn) == Outcome(0, "[]\n", "")
        outcome = run("search", "x", "--namespace", "nobody", "--dsn", database.dsn)
        assert (outcome.status, outcome.out) == (0, "")
        assert "nobody" in outcome.err

    def test_stdin_is_stored_as_it_is(self, run: Callable[..., Outcome], database: Database) -> None:
        assert run("store", "-", "--dsn", database.dsn, stdin="zwei\nZeilen ü\n".encode()).status == 0
        assert stored(database.direct_dsn) == [("zwei\nZeilen ü\n", {})]

    def test_stdin_that_is_not_utf_8_is_refused(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        outcome = run("store", "-", "--dsn", database.dsn, stdin=b"ok \xff")
        assert outcome.status == 2
        assert "byte 4" in outcome.err
        assert stored(database.direct_dsn) == []


class TestVerify:
    def test_fresh_memories_are_right(self, run: Callable[..., Outcome], database: Database) -> None:
        run("import", "-", "--dsn", database.dsn, stdin=line("one") + line("two"))
        run("store", "three", "--namespace", "other", "--dsn", database.dsn)
        outcome = run("verify", "--dsn", database.dsn)
        assert (outcome.status, outcome.err) == (0, "")
        assert outcome.out.startswith("2 checked, 0 wrong")
        assert run("verify", "--all-namespaces", "--dsn", database.dsn).out.startswith("3 checked, 0 wrong")

    def test_every_memory_that_differs_is_listed(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        run("import", "-", "--dsn", database.dsn, stdin=b"".join(line(f"memory {n}") for n in range(20)))
        # Stored as if another text had been embedded: the content changed behind the package's back.
        execute(database.direct_dsn, "UPDATE memory.memories SET content = content || ' !' WHERE seq % 3 = 0")
        outcome = run("verify", "--json", "--dsn", database.dsn)
        assert outcome.status == 1
        result = json.loads(outcome.out)
        assert (result["checked"], result["ok"], result["sql_checked"]) == (20, False, True)
        changed = {content for content, _ in stored(database.direct_dsn) if content.endswith("!")}
        assert len(result["differences"]) == len(changed) > 0
        table = run("verify", "--dsn", database.dsn)
        assert table.status == 1
        for difference in result["differences"]:
            assert difference["stored"] != difference["python"] == difference["sql"]
            assert difference["id"] in table.out
        assert f"20 checked, {len(changed)} wrong" in table.out

    def test_a_server_without_md5_is_named(self, run: Callable[..., Outcome], database: Database) -> None:
        run("store", "one", "--dsn", database.dsn)
        refuse_md5(database.direct_dsn)
        outcome = run("verify", "--dsn", database.dsn)
        assert outcome.status == 0
        assert "only Python recomputed" in outcome.err
        assert outcome.out.startswith("1 checked, 0 wrong")


class TestDemo:
    def test_imports_the_sample_answers_and_may_be_repeated(
        self, run: Callable[..., Outcome], empty_database: Database
    ) -> None:
        for _ in range(2):
            outcome = run("demo", "--dsn", empty_database.dsn)
            assert outcome.status == 0, outcome.err
            assert "Imported 60 memories" in outcome.out
            assert "Mira takes her coffee black" in outcome.out
            assert "allergic to peanuts" in outcome.out
            assert "Try next:" in outcome.out
        assert len(stored(empty_database.direct_dsn, "postgres-memory-demo")) == 60

    def test_starts_the_embedded_server_where_no_database_is_named(
        self, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, server_folder: Path
    ) -> None:
        monkeypatch.setenv("POSTGRES_MEMORY_EMBEDDED_DIR", str(server_folder))
        outcome = run("demo")
        assert outcome.status == 0, outcome.err
        assert outcome.out.startswith("Starting the embedded PostgreSQL")
        assert "Imported 60 memories" in outcome.out
        assert not list(server_folder.rglob("postmaster.pid"))


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder that the system user of root's server can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="pm-cli-") as parent:
        Path(parent).chmod(0o711)
        yield Path(parent) / "server"


def refuse_md5(dsn: str) -> None:
    """Do to one database what FIPS mode does to a server: every call of MD5 fails."""
    for kind in ("text", "bytea"):
        execute(dsn, f"ALTER FUNCTION pg_catalog.md5({kind}) RENAME TO md5_refused")


async def test_the_library_sees_what_the_command_stored(database: Database) -> None:
    command = [*COMMAND, "store", "from the shell", "--dsn", database.dsn]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    assert await process.wait() == 0
    async with PostgresMemory(database.dsn) as memory:
        assert [entry.content for entry in await memory.search("shell")] == ["from the shell"]
