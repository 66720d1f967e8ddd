"""A DSN of several hosts, some of which are gone: without a word, with one, or behind something that answers."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from postgres_memory import PostgresMemory, _route
from postgres_memory._hosts import places_of
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.config import Dsn
from postgres_memory.errors import DatabaseError, DatabaseUnavailableError
from postgres_memory.migrations import migrate

from ..conftest import Database
from ..integration.proxy import Proxy

GONE = "127.0.0.1:1"


@pytest.fixture
async def silent(database: Database) -> AsyncIterator[Proxy]:
    """A host that takes connections and never says a word."""
    proxy = Proxy(database, silent=True)
    await proxy.start()
    yield proxy
    await proxy.stop()


async def slammed(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close what connects, as something does that stands before a server and finds it gone."""
    writer.close()


@pytest.mark.parametrize(
    "looked_for", ["", "&target_session_attrs=primary", "&target_session_attrs=prefer-standby"]
)
async def test_another_host_answers(proxy: Proxy, silent: Proxy, looked_for: str) -> None:
    async with AsyncExitStack() as stack:
        slams = await stack.enter_async_context(await asyncio.start_server(slammed, "127.0.0.1", 0))
        port = slams.sockets[0].getsockname()[1]
        here = f"127.0.0.1:{proxy.port}"
        name = proxy.database.name
        hosts = f"127.0.0.1:{silent.port},127.0.0.1:{port},{GONE},{here}"
        dsn = f"postgresql://postgres@{hosts}/{name}?sslmode=disable{looked_for}"
        began = time.monotonic()
        async with PostgresMemory(dsn, connect_timeout=4, pool_max_size=5) as memory:
            assert time.monotonic() - began < 4
            waited = silent.connections
            assert waited == 1
            await asyncio.gather(*(memory.store("tea") for _ in range(20)))
            assert await memory.count() == 20
            if "prefer" not in looked_for:  # who looks for a standby asks everyone
                assert silent.connections == waited  # it is asked last from then on


async def test_migrating_by_way_of_another_host(proxy: Proxy, silent: Proxy) -> None:
    hosts = f"127.0.0.1:{silent.port},127.0.0.1:{proxy.port}"
    dsn = Dsn(f"postgresql://postgres@{hosts}/{proxy.database.name}?sslmode=disable")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_route, "CONNECTING", 2.0)
        began = time.monotonic()
        assert await migrate(dsn) == REVISION
        assert time.monotonic() - began < 10


async def test_no_host_answers(silent: Proxy) -> None:
    hosts = f"127.0.0.1:{silent.port},127.0.0.1:{silent.port}"
    memory = PostgresMemory(f"postgresql://postgres@{hosts}/memory?sslmode=disable", connect_timeout=0.6)
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailableError, match="in time") as raised:
        await memory.store("tea")
    assert raised.value.nothing_written
    assert time.monotonic() - began < 3
    await memory.close()


def certify(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for a host of that name, which nobody vouches for but its own file, and its key."""
    files = folder / f"{name}.crt", folder / f"{name}.key"
    making = f"openssl req -x509 -nodes -days 1 -subj /CN={name} -addext subjectAltName=DNS:{name}"
    subprocess.run([*making.split(), "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    """That of another host than the one that shows it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    certify(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certify(tmp_path, "elsewhere"))
    return context


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ("sslmode=verify-full&sslrootcert={}/elsewhere.crt", "Hostname mismatch"),
        ("sslmode=verify-ca&sslrootcert={}/other.crt", "CERTIFICATE_VERIFY_FAILED"),
    ],
)
async def test_a_certificate_that_is_not_the_hosts(
    certificate: ssl.SSLContext, tmp_path: Path, parameters: str, problem: str
) -> None:
    """The error says what is wrong with it, and not that the DSN cannot be read."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)  # whether there is TLS
        writer.write(b"S")
        with suppress(OSError):
            await writer.start_tls(certificate)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        parameters = parameters.format(quote(str(tmp_path)))
        memory = PostgresMemory(f"postgresql://postgres:secret@localhost:{port}/memory?{parameters}")
        with pytest.raises(DatabaseError, match=problem) as raised:
            await memory.store("tea")
        assert raised.value.nothing_written
        with pytest.raises(DatabaseError, match=problem):
            await memory.migrate()
        await memory.close()


@pytest.mark.parametrize(
    ("dsn", "places"),
    [
        ("postgresql://u:p%40x@a:1,b/db", [("a", 1), ("b", 5432)]),
        ("postgresql://u@[::1]:7,%2Ftmp%2Fx/db", [("::1", 7), ("/tmp/x", 5432)]),
        ("postgresql:///db?host=a,b&port=1,2", [("a", 1), ("b", 2)]),
        ("postgresql:///db?host=a:5,b", [("a", 5), ("b", 5432)]),
        ("postgresql:///db?host=/tmp/x,/tmp/y", [("/tmp/x", 5432), ("/tmp/y", 5432)]),
        ("postgresql:///db?host=a,b&port=1", []),
        ("postgresql:///db", []),
    ],
)
def test_what_a_dsn_names(monkeypatch: pytest.MonkeyPatch, dsn: str, places: list[tuple[str, int]]) -> None:
    monkeypatch.delenv("PGPORT", raising=False)
    assert places_of(dsn) == places
