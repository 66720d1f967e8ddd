"""The server image of docker/postgres, and a PgBouncer before it, as containers of one test run (testcontainers)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

_READY_SECONDS = 120

#: The server of a test run may forget everything; that makes it fast.
_FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")


@contextmanager
def server_container(image: str) -> Iterator[tuple[str, str]]:
    """Run the server; give its DSN, and its address among containers."""
    container = _container(image).with_env("POSTGRES_HOST_AUTH_METHOD", "trust").with_exposed_ports(5432)
    # In memory; not where the image has a folder, whose owner the file system would not take over.
    container = container.with_env("PGDATA", "/run/data/17").with_tmpfs_mount("/run/data")
    container = container.with_command([part for setting in _FORGETFUL for part in ("-c", setting)])
    with _running(container):
        networks = container.get_wrapped_container().attrs["NetworkSettings"]["Networks"]
        (address,) = {network["IPAddress"] for network in networks.values()}
        yield _dsn(container, 5432), address


@contextmanager
def pooler_container(image: str, server: str) -> Iterator[str]:
    """Run PgBouncer before the server at that address; give the DSN of no database."""
    container = _container(image).with_env("SERVER", server).with_exposed_ports(6432)
    with _running(container):
        yield _dsn(container, 6432)


def _container(image: str) -> DockerContainer:
    # Read when the library is first imported. Its own container for cleaning up is an image of a third party, and which
    # addresses reach a container it guesses wrongly on a machine that looks like one.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    os.environ.setdefault("TESTCONTAINERS_CONNECTION_MODE", "docker_host")
    from testcontainers.core.container import DockerContainer

    return DockerContainer(image)


@contextmanager
def _running(container: DockerContainer) -> Iterator[None]:
    container.start()
    try:
        _wait_until_healthy(container)
        yield
    finally:
        container.stop()


def _wait_until_healthy(container: DockerContainer) -> None:
    wrapped = container.get_wrapped_container()
    give_up = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up:
        wrapped.reload()
        if wrapped.status == "exited":
            break
        if wrapped.attrs["State"]["Health"]["Status"] == "healthy":
            return
        time.sleep(0.2)
    raise RuntimeError(f"the container is not healthy; its last words: {wrapped.logs(tail=20).decode()}")


def _dsn(container: DockerContainer, port: int) -> str:
    return f"postgresql://postgres@{container.get_container_host_ip()}:{container.get_exposed_port(port)}/postgres"
