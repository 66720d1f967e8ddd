"""A PgBouncer in transaction mode before a server of the tests: started, named by a DSN, stopped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from postgres_memory._embedded import server_account
from postgres_memory._embedded_account import USER_NAME

_PORT = 6432
_START_SECONDS = 20


def find_pooler(name: str = "pgbouncer") -> str | None:
    """Return the program, which Debian keeps outside an ordinary user's path."""
    return shutil.which(
        name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    )


@contextmanager
def pooler(program: str, server_dsn: str, settings: Mapping[str, object] | None = None) -> Iterator[str]:
    """Run PgBouncer before the server, for all of its databases, and give a DSN that names none of them.

    It has a socket in a folder of its own, and runs as the embedded server's user, who may enter that one's folder.
    """
    account = server_account()
    folder = Path(tempfile.mkdtemp(prefix="pm-pooler-"))
    try:
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(_configuration(server_dsn, folder, settings or {}), encoding="utf-8")
        users = folder / "users.txt"
        users.write_text(_users(server_dsn), encoding="utf-8")
        if account is not None:
            for path in (folder, configuration, users):
                os.chown(path, account.uid, account.gid)
        user = [] if account is None else ["-u", USER_NAME]
        process = subprocess.Popen([program, "-q", *user, str(configuration)], stderr=subprocess.PIPE)
        try:
            _wait_until_ready(process, folder)
            user_name = quote(urlsplit(server_dsn).username or "postgres")
            yield f"postgresql://{user_name}@/?host={quote(str(folder))}&port={_PORT}"
        finally:
            process.terminate()
            _, words = process.communicate()
            print(words.decode(errors="replace"))  # noqa: T201 -- pytest shows it where a test fails
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _configuration(server_dsn: str, folder: Path, settings: Mapping[str, object]) -> str:
    parts = urlsplit(server_dsn)
    query = parse_qs(parts.query)
    host = parts.hostname or query.get("host", ["localhost"])[0]
    port = parts.port or query.get("port", ["5432"])[0]
    # Whoever is not in the file of users is looked up; with trust that is enough.
    server = f"host={host} port={port} auth_user={unquote(parts.username or 'postgres')}"
    chosen = {
        "pool_mode": "transaction",
        "listen_addr": "",
        "listen_port": _PORT,
        "unix_socket_dir": folder,
        "auth_type": "trust",
        "auth_file": folder / "users.txt",
        "max_client_conn": 1000,
        "default_pool_size": 20,
        "server_login_retry": 0.1,
        "log_connections": 0,
        "log_disconnections": 0,
        **settings,
    }
    lines = [f"{name} = {value}" for name, value in chosen.items()]
    return "\n".join(["[databases]", f"* = {server}", "[pgbouncer]", *lines, ""])


def _users(server_dsn: str) -> str:
    parts = urlsplit(server_dsn)
    return f'"{unquote(parts.username or "postgres")}" "{unquote(parts.password or "")}"\n'


def _wait_until_ready(process: subprocess.Popen[bytes], folder: Path) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        with socket.socket(socket.AF_UNIX) as tried:
            if tried.connect_ex(str(folder / f".s.PGSQL.{_PORT}")) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("PgBouncer did not start")
