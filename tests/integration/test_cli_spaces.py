"""The commands on embedding spaces: the embedder changed as a person does it, by an endpoint that answers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from .command import COMMAND, Outcome, caller, interrupted, line, started, until_hangup, wait_until

pytest.importorskip("httpx")
pytest.importorskip("stamina")

from .embedding_server import Endpoint, served_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Database


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database: Database
) -> Callable[..., Outcome]:
    """Call the command on the database of the test."""
    call = caller(monkeypatch, capsys)
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    return call


@pytest.fixture
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    with served_endpoint() as served:
        yield served


def spaces(run: Callable[..., Outcome]) -> list[tuple[Any, ...]]:
    names = ("name", "status", "dimensions", "embedded", "pending")
    return [tuple(space[name] for name in names) for space in json.loads(run("spaces", "--json").out)]


def test_from_one_embedder_to_another(
    run: Callable[..., Outcome], endpoint: tuple[Endpoint, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = endpoint
    run("import", "-", stdin=line("red apple") + line("green pear") + line("blue sky"))
    assert "no embedding spaces" in run("spaces").err
    monkeypatch.setenv("POSTGRES_MEMORY_EMBEDDER", f"openai:old,url={url}")
    assert run("reembed", "old").out == "space 'old': 3 embedded, 0 refused, 0 changed meanwhile, 0 pending\n"
    assert run("switch-space", "old").out == "space 'old' is active\n"
    assert json.loads(run("switch-space", "old", "--json").out) == {"active": "old"}
    run("store", "red cherry", "--id", "cherry")
    explained = json.loads(run("recall", "cherry", "--explain", "--json").out)
    assert explained["hits"][0]["record"]["id"] == "cherry"
    assert explained["hits"][0]["parts"]["vector"] > 0
    assert any(sentence.startswith("vector: space 'old'") for sentence in explained["plan"])
    monkeypatch.delenv("POSTGRES_MEMORY_EMBEDDER")
    run("store", "nobody embeds this")
    assert spaces(run) == [("old", "active", 8, 4, 1)]
    new = ("--embedder", f"openai:new,url={url},dimensions=12,name=new")
    assert run("embed-pending", *new).status == 2
    assert run("reembed", "new", *new, "--batch-size", "2", "--json").status == 0
    assert run("switch-space", "new").status == 0
    assert spaces(run) == [("old", "retired", 8, 4, 1), ("new", "active", 12, 5, 0)]
    run("store", "nor this")
    embedded = run("embed-pending", *new)
    assert embedded.out == "space 'new': 1 embedded, 0 refused, 0 changed meanwhile, 0 pending\n"
    assert "retired" in run("spaces").out
    assert run("drop-space", "old").status == 2  # nobody can be asked
    assert run("drop-space", "old", "--yes").out == "space 'old' is gone, with 4 embeddings\n"
    assert run("drop-space", "new", "--yes").status == 1
    assert spaces(run) == [("new", "active", 12, 6, 0)]


def test_an_index_is_built_and_dropped(run: Callable[..., Outcome], endpoint: tuple[Endpoint, str]) -> None:
    _, url = endpoint
    run("store", "one")
    run("reembed", "s", "--embedder", f"openai:m,url={url}")
    built = run("create-index", "s", "--m", "8", "--type", "halfvec", "--json")
    index = json.loads(built.out)
    assert (index["kind"], index["type"], index["m"], index["ef_construction"]) == ("hnsw", "halfvec", 8, 64)
    assert "hnsw, halfvec, m 8" in run("create-index", "s", "--m", "8", "--type", "halfvec").out
    assert run("create-index", "s", "--m", "1").status == 2
    assert run("create-index", "nothing").status == 1
    assert run("drop-index", "s").out == "the index of space 's' is dropped\n"
    assert json.loads(run("drop-index", "s", "--json").out) == {"dropped": False}


def test_a_key_goes_to_the_endpoint_it_is_meant_for(
    run: Callable[..., Outcome], endpoint: tuple[Endpoint, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, url = endpoint
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    run("store", "x", "--embedder", f"openai:m,url={url}")
    monkeypatch.setenv("POSTGRES_MEMORY_EMBEDDER_KEY", "of-this")
    run("store", "x", "--embedder", f"openai:m,url={url}")
    assert served.keys == [None, "Bearer of-this"]


class Refusing(Endpoint):
    """Refuses every request with a text of a kind, and says it back."""

    def answer(self, body: dict[str, Any], key: str | None) -> tuple[int, dict[str, str], Any]:
        if any("unembeddable" in text for text in body["input"]):
            return 400, {}, {"error": body["input"]}
        return super().answer(body, key)


def test_what_an_embedder_refuses_is_named(run: Callable[..., Outcome]) -> None:
    run("store", "fine", "--id", "fine")
    run("store", "unembeddable\x9b2J", "--id", "bad")
    with served_endpoint(Refusing()) as (_, url):
        outcome = run("reembed", "s", "--embedder", f"openai:m,url={url}")
    assert outcome.status == 1
    assert outcome.out == "space 's': 1 embedded, 1 refused, 0 changed meanwhile, 1 pending\n"
    assert "memory 'bad'" in outcome.err
    assert "\x9b" not in outcome.err


def test_an_endpoint_that_is_away_is_one_line(run: Callable[..., Outcome]) -> None:
    run("store", "x")
    outcome = run("reembed", "s", "--embedder", "openai:m,url=http://127.0.0.1:1/v1")
    assert (outcome.status, outcome.out) == (1, "")
    assert "cannot be reached" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", [("reembed", "s"), ("embed-pending",)])
def test_without_an_embedder_it_says_how_to_name_one(
    run: Callable[..., Outcome], command: tuple[str, ...]
) -> None:
    outcome = run(*command)
    assert outcome.status == 2
    assert "--embedder" in outcome.err


def test_ctrl_c_says_how_far_it_is_and_the_next_call_goes_on(
    run: Callable[..., Outcome], database: Database, endpoint: tuple[Endpoint, str]
) -> None:
    served, url = endpoint
    run("import", "-", stdin=b"".join(line(f"memory {n}") for n in range(300)))
    served.delay = 0.1
    arguments = ("reembed", "s", "--embedder", f"openai:m,url={url}", "--batch-size", "5")
    with started(*arguments, dsn=database.dsn) as process:
        wait_until(lambda: len(served.requests) > 5)
        status, out, last = interrupted(process)
    served.delay = 0
    assert (status, out) == (130, b"")
    done = int(last.split()[2])
    assert last == f"stopped after {done} of 300 memories; called again, it goes on with the rest"
    ((_, _, _, embedded, pending),) = spaces(run)
    # The batch under way may have been committed, or not.
    assert done <= embedded <= done + 5
    assert (done > 0, embedded + pending) == (True, 300)
    rest = run(*arguments)
    assert rest.out == f"space 's': {300 - embedded} embedded, 0 refused, 0 changed meanwhile, 0 pending\n"


def test_a_terminal_sees_how_fast_and_how_long(
    run: Callable[..., Outcome], database: Database, endpoint: tuple[Endpoint, str]
) -> None:
    served, url = endpoint
    run("import", "-", stdin=b"".join(line(f"memory {n}") for n in range(60)))
    served.delay = 0.1
    reader, writer = pty.openpty()
    command = ["reembed", "s", "--embedder", f"openai:m,url={url}", "--batch-size", "2"]
    with subprocess.Popen(
        [*COMMAND, *command, "--dsn", database.dsn],
        stdout=subprocess.PIPE,
        stderr=writer,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(writer)
        seen = b"".join(until_hangup(reader)).decode()
        os.close(reader)
        assert process.wait() == 0
    for word in ("embedding", "100%", "/s", "left"):
        assert word in seen
