"""One embedded server: real ones, in folders of their own, as root or as an ordinary user."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postgres_memory import _embedded, _embedded_account
from postgres_memory._embedded import EmbeddedServer, binaries, reachable_binaries, server_account
from postgres_memory.errors import (
    ConfigurationError,
    EmbeddedServerError,
    InvalidTypeError,
    InvalidValueError,
    UsageError,
)
from tests.integration.embedded_folders import (
    FAST,
    database_folder,
    empty_folder,
    environment,
    fetchval,
    mode,
    names,
    owner,
    server_pid,
    stopped_at_the_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

IS_ROOT = os.geteuid() == 0


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


async def test_data_survives_a_restart(made: Path) -> None:
    server = EmbeddedServer(made, settings=FAST)
    dsn = await server.start()
    await fetchval(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    await server.stop()
    assert server_pid(made) is None

    dsn = await server.start()
    assert await fetchval(dsn, "SELECT answer FROM kept") == 42
    await server.stop()


async def test_start_and_stop_are_idempotent_and_dsn_is_known_between(made: Path) -> None:
    server = EmbeddedServer(made, settings=FAST)
    with pytest.raises(UsageError):
        _ = server.dsn
    await server.stop()
    assert await server.start() == await server.start() == server.dsn
    await server.stop()
    await server.stop()
    with pytest.raises(UsageError):
        _ = server.dsn


async def test_settings_reach_the_server_and_it_has_pgvector(made: Path) -> None:
    server = EmbeddedServer(made, settings=FAST | {"work_mem": "7MB", "application_name": 'it\'s "$HOME"'})
    dsn = await server.start()
    try:
        assert await fetchval(dsn, "SHOW work_mem") == "7MB"
        assert await fetchval(dsn, "SELECT boot_val <> reset_val FROM pg_settings WHERE name = 'work_mem'")
        assert await fetchval(dsn, "SHOW application_name") == 'it\'s "$HOME"'
        assert (
            await fetchval(
                dsn, "SELECT count(*) FROM pg_available_extensions WHERE name IN ('vector', 'pg_trgm')"
            )
            == 2
        )
    finally:
        await server.stop()


async def test_nobody_else_can_reach_data_or_socket(made: Path) -> None:
    server = EmbeddedServer(made, settings=FAST)
    dsn = await server.start()
    try:
        assert mode(made) == (0o710 if IS_ROOT else 0o700)
        assert mode(made / "data") == 0o700
        assert mode(made / "run") == 0o700
        account = server_account()
        runs_it = account.uid if account else os.geteuid()
        assert [owner(made / name) for name in ("", "holders")] == [os.geteuid()] * 2
        assert [owner(made / name) for name in ("data", "run", "run/.s.PGSQL.5432")] == [runs_it] * 3
        assert {mode(made / name) & 0o077 for name in names(made)} == {0}
        assert await fetchval(dsn, "SHOW listen_addresses") == ""
        assert await fetchval(dsn, "SHOW unix_socket_permissions") == "0700"
    finally:
        await server.stop()


async def test_locale_and_variables_of_the_environment_do_not_count(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "LC_ALL": "xx_YY.ISO-8859-1",
        "LANG": "POSIX",
        "PGDATA": "/nonexistent",
        "PGPORT": "1",
        "PGDATABASE": "none",
        "PGOPTIONS": "-c nonsense=1",
        "API_KEY": "not the server's business",
    }.items():
        monkeypatch.setenv(name, value)
    server = EmbeddedServer(fresh, settings=FAST)
    dsn = await server.start()
    try:
        described = await fetchval(
            dsn,
            "SELECT (datname, pg_encoding_to_char(encoding), datlocprovider, datlocale, datcollate)::text"
            " FROM pg_database WHERE datname = current_database()",
        )
        assert described == "(postgres_memory,UTF8,b,C.UTF-8,C)"
        assert await fetchval(dsn, "SELECT lower('ÀΣ' COLLATE \"default\")") == "àσ"
        assert await fetchval(dsn, "SHOW lc_messages") == "C"
        inherited = await environment(dsn)
        assert "PATH" in inherited
        assert not inherited.keys() & {"LC_ALL", "LANG", "PGPORT", "PGDATABASE", "PGOPTIONS", "API_KEY"}
    finally:
        await server.stop()


async def test_event_loop_keeps_running_meanwhile(fresh: Path) -> None:
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    ticker = asyncio.create_task(tick())
    server = EmbeddedServer(fresh, settings=FAST)
    began = time.monotonic()
    await server.start()
    await server.stop()
    took = time.monotonic() - began
    ticker.cancel()
    assert max(gaps) < 0.5
    assert len(gaps) > 10 * took  # ticks every 10 ms, a tenth of that on a busy machine


@pytest.mark.parametrize("name", ["long-" + "x" * 100, "a $HOME `b` \"c\" 'd', é & %2F"])
async def test_folders_whose_path_cannot_hold_a_socket(fresh: Path, name: str) -> None:
    os.chmod(fresh, 0o755)
    folder = fresh / name
    server = EmbeddedServer(folder, settings=FAST)
    dsn = await server.start()
    try:
        elsewhere = (folder / "run").resolve()
        assert fresh not in elsewhere.parents
        assert mode(elsewhere) == 0o700
        assert owner(elsewhere) == owner(folder / "data")
        assert await fetchval(dsn, "SHOW data_directory") == str(folder / "data")
        again = EmbeddedServer(folder)
        assert await again.start() == dsn
        await again.stop()
    finally:
        await server.stop()
    assert server_pid(folder) is None
    assert not elsewhere.exists()
    assert not (folder / "run").is_symlink()


async def test_data_of_another_major_version_is_named_and_left_alone(made: Path) -> None:
    version = made / "data" / "PG_VERSION"
    current = version.read_text()
    version.write_text("15\n")
    try:
        with pytest.raises(EmbeddedServerError, match=rf"PostgreSQL 15, .* {current.strip()}\."):
            await EmbeddedServer(made, settings=FAST).start()
    finally:
        version.write_text(current)


async def test_failed_start_tells_the_log_and_holds_nothing(made: Path) -> None:
    broken = EmbeddedServer(made, settings=FAST | {"shared_preload_libraries": "no_such_library"})
    with pytest.raises(EmbeddedServerError, match="no_such_library"):
        await broken.start()
    server = EmbeddedServer(made, settings=FAST)
    await server.start()
    await server.stop()
    assert server_pid(made) is None


async def test_failed_initdb_tells_why_and_leaves_nothing(fresh: Path) -> None:
    broken = EmbeddedServer(fresh, settings={"max_connections": "none"})
    with pytest.raises(EmbeddedServerError, match="max_connections"):
        await broken.start()
    assert names(fresh) == ["holders", "postgres-memory.lock"]


async def test_cancelled_start_and_stop_can_be_followed_by_anything(fresh: Path) -> None:
    server = EmbeddedServer(fresh, settings=FAST)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.start(), 0.05)
    await server.stop()
    assert (fresh / "data").exists()
    assert server_pid(fresh) is None

    assert await fetchval(await server.start(), "SELECT 1") == 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.stop(), 0.001)
    await server.stop()
    assert server_pid(fresh) is None


async def test_default_folder_is_named_by_the_environment(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_EMBEDDED_DIR", str(made))
    server = EmbeddedServer(settings=FAST)
    assert await fetchval(await server.start(), "SHOW data_directory") == str(made / "data")
    await server.stop()


async def test_folder_inside_a_closed_one(fresh: Path) -> None:
    folder = fresh / "inside"
    server = EmbeddedServer(folder, settings=FAST)
    if IS_ROOT:
        with pytest.raises(
            ConfigurationError, match=re.escape(f"lies inside {fresh}, which the system user")
        ):
            await server.start()
    else:
        await server.start()
        await server.stop()
    assert mode(fresh) == 0o700


async def test_folder_with_other_files_is_refused_and_left_alone(fresh: Path) -> None:
    os.chmod(fresh, 0o755)
    (fresh / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="holds other files"):
        await EmbeddedServer(fresh, settings=FAST).start()
    assert mode(fresh) == 0o755
    assert names(fresh) == ["thesis.txt"]


async def test_folder_that_cannot_be_made() -> None:
    with pytest.raises(EmbeddedServerError, match=r"cannot be used: .*Not a directory"):
        await EmbeddedServer(Path(sys.executable, "folder"), settings=FAST).start()


def test_default_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTGRES_MEMORY_EMBEDDED_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for named, expected in {"/srv/ann": "/srv/ann", "relative": "/home/ann/.local/share"}.items():
        monkeypatch.setenv("XDG_DATA_HOME", named)
        assert _embedded._default_folder() == Path(expected, "postgres-memory", "server")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert _embedded._default_folder() == Path("/var/lib/postgres-memory/server")


async def test_wheel_that_the_server_user_cannot_reach(
    fresh: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = binaries().parents[1]
    closed = fresh / "closed"
    closed.mkdir(mode=0o700)
    left_out = shutil.ignore_patterns("include", "__pycache__", "doc", "*.a")
    shutil.copytree(package, closed / package.name, symlinks=True, ignore=left_out)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, closed / libraries.name)
    monkeypatch.syspath_prepend(str(closed))
    monkeypatch.setattr(_embedded_account, "ROOT_HOME", fresh / "home")
    os.chmod(fresh, 0o711)
    assert binaries() == closed / package.name / "pginstall" / "bin"

    server = EmbeddedServer(made, settings=FAST)
    dsn = await server.start()
    used = Path(await fetchval(dsn, "SELECT setting FROM pg_config WHERE name = 'BINDIR'"))
    await server.stop()
    assert used == reachable_binaries(server_account())
    assert used.is_relative_to(fresh / "home" if IS_ROOT else closed)
    assert mode(closed) == 0o700
    assert (used / "psql").exists()


def test_wheel_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(ConfigurationError, match=re.escape("pip install 'postgres-memory[embedded]'")):
        binaries()


def test_system_user_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(_embedded_account, "ROOT_HOME", tmp_path)
    monkeypatch.setattr(_embedded_account, "USER_NAME", "no-such-user")
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(EmbeddedServerError, match=r"useradd --system .* postgres-memory"):
        server_account()


_MAKE_A_USER = """
import sys
from postgres_memory import _embedded_account as account
name = sys.argv[1]
account.USER_NAME, account._MAKE_USER = name, [*account._MAKE_USER[:-1], name]
print(account.server_account().uid)
"""


@pytest.mark.skipif(not IS_ROOT, reason="only root makes a system user")
def test_processes_that_need_the_system_user_at_once_get_the_same() -> None:
    name = f"pm-race-{os.getpid()}"
    processes = [
        subprocess.Popen([sys.executable, "-c", _MAKE_A_USER, name], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    try:
        uids = {process.communicate(timeout=120)[0].strip() for process in processes}
        assert uids == {str(pwd.getpwnam(name).pw_uid)}
    finally:
        subprocess.run(["userdel", name], check=True)


def test_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigurationError, match="Windows"):
        EmbeddedServer()


@pytest.mark.parametrize(
    "name", ["listen_addresses", "PORT", "unix_socket_directories", "a b", "", "x=y", "-c"]
)
def test_settings_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match="settings"):
        EmbeddedServer(settings={name: "1"})


def test_settings_of_other_types_are_refused() -> None:
    wrong: Any = {"work_mem": 7}
    with pytest.raises(InvalidTypeError, match="settings"):
        EmbeddedServer(settings=wrong)
