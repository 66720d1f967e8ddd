"""Log records hold no contents, metadata or passwords, whatever happens."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest

from postgres_memory import PostgresMemory
from postgres_memory.errors import PostgresMemoryError

from ..conftest import Database
from ..integration.proxy import Proxy

SECRET = "S3CRET-OF-THE-USER"


async def use(memory: PostgresMemory) -> None:
    """Every kind of value that a caller gives, in calls that succeed and calls that fail."""
    private: dict[str, Any] = {"metadata": {SECRET: SECRET}, "tags": (SECRET,), "thread_id": SECRET}
    record = await memory.add(SECRET, dedupe="content", idempotency_key=SECRET, **private)
    await memory.add_many([{"content": SECRET, **private}], dedupe="content")
    await memory.import_(io.BytesIO(f'{{"content": "{SECRET}"}}\n{SECRET}\n'.encode()))
    await memory.update(record.id, content=f"{SECRET} again")
    for call in (
        memory.search(SECRET),
        memory.recall(SECRET, filter={"content": SECRET}),
        memory.find(filter={"tags": {"$contains_any": [SECRET]}}),
        memory.supersede(record.id, SECRET, **private),
        memory.get(SECRET),
        memory.add(SECRET, id=record.id),
        memory.add(SECRET + "\0"),
        memory.add(SECRET, metadata={SECRET: object()}),
        memory.add(SECRET, idempotency_key=SECRET),
        memory.set_language(SECRET),
    ):
        try:
            await call
        except PostgresMemoryError:
            continue


def fails(texts: list[str]) -> list[list[float]]:
    raise ValueError(f"too long: {texts}")


async def test_no_contents(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with PostgresMemory(database.dsn, embedder=fails, space="fails") as memory:
        await use(memory)
    told = "\n".join(f"{record.name} {record.getMessage()} {record.args}" for record in caplog.records)
    assert "postgres_memory" in told  # the embedder's failures are told of
    assert SECRET not in told


async def test_no_contents_when_connections_are_lost(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with PostgresMemory(proxy.dsn) as memory:
        for number in (1, 2, 3):
            proxy.executions, proxy.lose_answer_to = 0, number
            await memory.add(SECRET, id=f"{number}")
    assert "tried again" in caplog.text
    assert SECRET not in caplog.text


async def test_no_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    memory = PostgresMemory(f"postgresql://user:{SECRET}@127.0.0.1:1/nothing")
    with pytest.raises(PostgresMemoryError) as caught:
        await memory.store("tea")
    assert SECRET not in caplog.text + repr(memory) + str(caught.value)
