"""Which database is meant, and that its password shows nowhere."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator
from functools import partial

import pytest

from postgres_memory import PostgresMemory, PostgresMemoryError
from postgres_memory.config import DSN_VARIABLES, Dsn, parse_dsn
from postgres_memory.errors import ConfigurationError, DatabaseUnavailableError
from postgres_memory.migrations import migrate

from ..conftest import Database
from .proxy import Proxy, proxied

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in DSN_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


async def reaches(memory: PostgresMemory, proxy: Proxy) -> bool:
    before = proxy.connections
    async with memory:
        await memory.search("tea")
    return proxy.connections > before


async def test_argument_before_variables(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxied(database) as first, proxied(database) as second, proxied(database) as third:
        monkeypatch.setenv("DATABASE_URL", third.dsn)
        assert await reaches(PostgresMemory(), third)
        monkeypatch.setenv("POSTGRES_MEMORY_DSN", second.dsn)
        assert await reaches(PostgresMemory(), second)
        assert await reaches(PostgresMemory(first.dsn), first)
        # An empty variable names nothing.
        monkeypatch.setenv("POSTGRES_MEMORY_DSN", "")
        assert await reaches(PostgresMemory(), third)


async def test_the_environment_is_read_at_the_first_call(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = PostgresMemory()
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    assert await memory.search("tea") == []
    await memory.close()


async def test_a_variable_that_names_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", "mysql://user:s3cret@host/db")
    with pytest.raises(ConfigurationError, match=r"^POSTGRES_MEMORY_DSN: ") as caught:
        await PostgresMemory().search("tea")
    assert_secret(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
async def test_spellings_of_the_scheme(database: Database, scheme: str) -> None:
    async with proxied(database) as proxy:
        dsn = scheme + proxy.dsn.removeprefix("postgresql")
        assert await reaches(PostgresMemory(dsn), proxy)


@pytest.mark.parametrize(
    "dsn", ["", "x", "mysql://h/db", "postgresql:/h/db", "host=h dbname=db", "postgresql"]
)
def test_texts_that_are_no_url(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://"):
        PostgresMemory(dsn)


SHOWN = {
    "postgresql://h/db": "postgresql://h/db",
    "postgresql://": "postgresql://",
    "postgresql://u@h:5432/db": "postgresql://u@h:5432/db",
    "postgresql://u:s3cret@h:5432/db": "postgresql://u:***@h:5432/db",
    "postgresql+asyncpg://u:s3cret@h/db": "postgresql://u:***@h/db",
    "postgresql://u:s3cret@[::1]:5432/db": "postgresql://u:***@[::1]:5432/db",
    "postgresql://u:s3cret@h1:1,h2:2/db": "postgresql://u:***@h1:1,h2:2/db",
    "postgresql://u:s3cret@h/db?sslmode=require&x=1": "postgresql://u:***@h/db",
    "postgresql://u@/db?host=/run/postgresql": "postgresql://u@/db",
    "postgresql://h/db?password=s3cret": "postgresql://h/db",
    "postgresql://h/db?user=me@s3cret": "postgresql://***",
    # The driver understands this one.
    "postgresql://u:s3cret:s3cret@h/db": "postgresql://u:***@h/db",
}


@pytest.mark.parametrize("dsn", SHOWN)
def test_what_is_shown(dsn: str) -> None:
    parsed = parse_dsn(dsn)
    assert str(parsed) == SHOWN[dsn]
    assert repr(parsed) == f"Dsn({SHOWN[dsn]!r})"
    assert repr(PostgresMemory(dsn)) == f"PostgresMemory({SHOWN[dsn]!r}, namespace='default')"
    assert "s3cret" not in f"{parsed}{parsed!r}{PostgresMemory(dsn)}{PostgresMemory(dsn)._connecting!r}"


UNREADABLE = [
    # A driver would take parts of these passwords for host, port and database, and its errors would repeat them.
    "postgresql://u:s3cret/s3cret@h/db",
    "postgresql://u:s3cret@/s3cret@h/db",
    "postgresql://u:s3cret@s3cret@h/db",
    "postgresql://u:12/s3cret@h/db",
    "postgresql://u:s3cret#s3cret@h/db",
    "postgresql://u:12?s3cret@h/db",
    "postgresql://u:s3cret?x=1@h/db",
    "postgresql://u:s3cret[@h]/db",
    "postgresql://u:s3cret",
    "postgresql://u:s3cret/db",
    "postgresql://u:s3cret@h:port/db",
    "postgresql://u:s3cret@h:65536/db",
    "postgresql://u:s3cret@h:1,h:99999/db",
    "postgresql://u:s3cret@h/db?s3cret",
]


@pytest.mark.parametrize("dsn", UNREADABLE)
def test_what_cannot_be_read_is_refused_at_once(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="percent-encoded") as caught:
        PostgresMemory(dsn)
    assert_secret(caught.value)
    assert "s3cret" not in str(Dsn(dsn))


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        yield from chain(error.__cause__)
        error = error.__context__


def assert_secret(error: BaseException) -> None:
    for each in chain(error):
        assert "s3cret" not in str(each)
        assert "s3cret" not in repr(each)
        assert not any("s3cret" in str(value) for value in vars(each).values())
    assert "s3cret" not in "".join(traceback.format_exception(error))


PORT = "{port}"
FAILING = [
    "postgresql://u:s3cret@127.0.0.1:1/db",
    "postgresql://u:s3cret@no-such-host.invalid/db",
    "postgresql://u:s3cret:s3cret@127.0.0.1:1/db",
    "postgresql://u:s3cret[@127.0.0.1:1/db",
    "postgresql://u:s3cret%zz@127.0.0.1:1/db",
    "postgresql://u:s3cret@127.0.0.1:1/db?sslmode=nonsense",
    "postgresql://u@127.0.0.1:1/db?password=s3cret",
    "postgresql://u:s3cret@127.0.0.1:1/db?sslrootcert=/no/such/file&sslmode=verify-full",
    # A server that answers: no such role, no such database.
    f"postgresql://no_such_role:s3cret@127.0.0.1:{PORT}/no_such_database?sslmode=disable",
    f"postgresql://no_such_role:s3cret@127.0.0.1:{PORT}/db?sslmode=disable&no_such_setting=1",
]


async def test_no_error_and_no_log_holds_the_password(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    async with proxied(database) as proxy:
        for template in FAILING:
            dsn = template.replace(PORT, str(proxy.port))
            memory = PostgresMemory(dsn)
            for call in (memory.open, partial(memory.store, "tea"), memory.migrate):
                with pytest.raises(PostgresMemoryError) as caught:
                    await call()
                assert_secret(caught.value)
            with pytest.raises(PostgresMemoryError) as caught:
                await migrate(Dsn(dsn))
            assert_secret(caught.value)
            await memory.close()
    asyncio.get_running_loop().set_debug(False)
    assert "s3cret" not in caplog.text


async def test_the_cause_of_a_failure_is_kept() -> None:
    with pytest.raises(DatabaseUnavailableError) as caught:
        await PostgresMemory(NOWHERE).open()
    assert isinstance(caught.value.__cause__, OSError)
