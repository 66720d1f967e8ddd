"""The images of docker/ as people run them: what they do first, whom they run as, who is told, how they end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import asyncpg
import pytest

from tests.conftest import IMAGE, Database, Server

PACKAGE = "postgres-memory"


def docker(*arguments: str, fails: bool = False) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def server_image() -> str:
    if IMAGE not in os.environ:
        pytest.skip(f"{IMAGE} names no image; make test-container builds one and runs this")
    return os.environ[IMAGE]


@pytest.fixture
def container(server_image: str) -> Iterator[str]:
    """A container made and removed with its volume; not started."""
    options = [
        "--env",
        "POSTGRES_PASSWORD=a secret",
        "--env",
        'POSTGRES_DB=m"x',
        "--env",
        "POSTGRES_USER=owner",
    ]
    made = docker("create", "--label", "org.testcontainers=true", *options, server_image).strip()
    yield made
    docker("rm", "--force", "--volumes", made)


def psql(container: str, statement: str) -> str:
    connection = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--username=owner", 'm"x']
    return docker("exec", container, "psql", *connection, "--command", statement).strip()


def wait_until_healthy(container: str) -> None:
    asked = "for i in $(seq 300); do pg_isready --quiet --host=127.0.0.1 && exit; sleep 0.2; done; exit 1"
    docker("exec", container, "sh", "-c", asked)


def test_a_server_keeps_its_data_and_stops_cleanly(container: str) -> None:
    docker("start", container)
    wait_until_healthy(container)
    assert docker("exec", container, "id", "--user", "--name").strip() == "postgres"
    psql(container, "CREATE EXTENSION vector; CREATE TABLE kept AS SELECT '[1,2]'::vector AS v")
    docker("stop", container)
    assert docker("inspect", "--format", "{{.State.ExitCode}}", container).strip() == "0"
    assert "database system is shut down" in docker("logs", container)
    docker("start", container)
    wait_until_healthy(container)
    assert psql(container, "SELECT v FROM kept") == "[1,2]"
    assert psql(container, "SHOW password_encryption") == "scram-sha-256"


def test_a_server_without_a_password_does_not_start(server_image: str) -> None:
    assert "POSTGRES_PASSWORD" in docker("run", "--rm", server_image, fails=True)


def package(dsn: str, *arguments: str, fails: bool = False) -> str:
    """Run the package's image in the network of the machine, where the server's port is."""
    options = ["--rm", "--network=host", "--env", f"POSTGRES_MEMORY_DSN={dsn}"]
    return docker("run", *options, *arguments, fails=fails)


HEALTH = ["--entrypoint", "python", PACKAGE, "/opt/postgres-memory/healthcheck.py"]


async def test_the_package_migrates_and_says_whether_all_is_well(
    server_image: str, server: Server, empty_database: Database
) -> None:
    dsn = empty_database.dsn
    assert "postgres-memory migrate" in package(dsn, *HEALTH, fails=True)
    assert "is at revision" in package(dsn, PACKAGE, "migrate")
    package(dsn, *HEALTH)
    package(dsn, PACKAGE, "store", "from a container")
    connection = await asyncpg.connect(dsn)
    try:
        assert await connection.fetchval("SELECT content FROM memory.memories") == "from a container"
    finally:
        await connection.close()
    assert package(dsn, "--entrypoint", "id", PACKAGE, "--user", "--name").strip() == "postgres-memory"
    assert "POSTGRES_MEMORY_DSN" in package("", *HEALTH, fails=True)


def test_the_package_says_how_it_is_checked() -> None:
    if IMAGE not in os.environ:
        pytest.skip(f"{IMAGE} names no image; make test-container builds one and runs this")
    assert "healthcheck.py" in docker("inspect", "--format", "{{.Config.Healthcheck.Test}}", PACKAGE)
