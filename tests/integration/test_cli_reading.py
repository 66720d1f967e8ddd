"""The commands that read many memories, and what they show of contents that are made to deceive."""

from __future__ import annotations

import json
import os
import subprocess
from math import fsum
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from .command import COMMAND, Outcome, caller, line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Database


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database: Database
) -> Callable[..., Outcome]:
    """Call the command on the database of the test."""
    call = caller(monkeypatch, capsys)
    monkeypatch.setenv("POSTGRES_MEMORY_DSN", database.dsn)
    return call


class TestRecall:
    @pytest.fixture(autouse=True)
    def _three(self, run: Callable[..., Outcome]) -> None:
        run("store", "Mira moved to Porto.", "--id", "porto", "--tag", "people", "--importance", "0.75")
        run("store", "The office in Porto opens in May.", "--id", "office")
        run("store", "Tickets are answered within a day.", "--id", "tickets")

    def ids(self, outcome: Outcome) -> list[str]:
        assert outcome.status == 0, outcome.err
        return [hit["record"]["id"] for hit in json.loads(outcome.out)["hits"]]

    def test_the_best_comes_first(self, run: Callable[..., Outcome]) -> None:
        assert self.ids(run("recall", "Where is the office in Porto?", "--json"))[0] == "office"
        assert self.ids(run("recall", "-", "--json", "--limit", "1", stdin=b"Where did Mira move?")) == [
            "porto"
        ]
        assert self.ids(run("recall", "Porto", "--json", "--min-score", "0.1")) == ["porto", "office"]
        filtered = run("recall", "office", "--json", "--filter", '{"tags": {"$contains": "people"}}')
        assert self.ids(filtered) == ["porto"]
        by_hash = run("recall", "Tickets are answered within a day.", "--json", "--ranking", "hash")
        assert json.loads(by_hash.out)["hits"][0]["score"] == 1.0

    def test_the_parts_add_up_and_are_columns(self, run: Callable[..., Outcome]) -> None:
        weights = '{"importance": 0.5, "recency": [0.25, 30]}'
        arguments = ("recall", "Where did Mira move?", "--explain", "--ranking", weights)
        best = json.loads(run(*arguments, "--json").out)["hits"][0]
        assert set(best["parts"]) >= {"words", "importance", "recency"}
        assert fsum(best["parts"].values()) == pytest.approx(best["score"])
        assert best["parts"]["importance"] == pytest.approx(0.375)
        shown = run(*arguments).out
        heading = shown.splitlines()[1]
        for name in ("score", "words", "importance", "recency", "id", "content"):
            assert name in heading
        assert f"{best['score']:.2f}" in shown
        assert f"{best['parts']['words']:.2f}" in shown
        assert "vector: left out, it has no weight" in shown

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--ranking", "best"),
            ("--ranking", '{"worth": 1}'),
            ("--ranking", '{"lexical": "much"}'),
            ("--ranking", '{"lexical": 0}'),
            ("--ranking", '{"recency": 1}'),
            ("--ranking", '{"recency": [1, 1e300]}'),
            ("--ranking", '{"recency": [1, -1]}'),
            ("--ranking", '{"dates": 1}'),
            ("--ranking", "{"),
            ("--filter", "{"),
            ("--filter", "[]"),
            ("--filter", '{"importance": "much"}'),
            ("--filter", '{"a": 1, "a": 2}'),
            ("--min-score", "much"),
            ("--diversity", "7"),
            ("--as-of", "yesterday"),
        ],
    )
    def test_wrong_use_is_one_line_and_status_2(
        self, run: Callable[..., Outcome], wrong: tuple[str, ...]
    ) -> None:
        outcome = run("recall", "x", *wrong)
        assert (outcome.status, outcome.out) == (2, "")
        assert "Traceback" not in outcome.err


class TestFindAndCount:
    def test_pages_hold_every_memory_once(self, run: Callable[..., Outcome]) -> None:
        run("import", "-", stdin=b"".join(line(f"memory {n}", metadata={"n": n}) for n in range(25)))
        which = ("--filter", '{"metadata.n": {"$gte": 3}}', "--order-by", "created_at", "--limit", "9")
        seen, cursor = [], None
        while True:
            page = json.loads(run("find", *which, *(("--cursor", cursor) if cursor else ()), "--json").out)
            seen += [record["metadata"]["n"] for record in page["items"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert seen == list(range(3, 25))
        assert run("count", *which[:2]).out == "22\n"
        assert json.loads(run("count", "--json").out) == {"count": 25}

    def test_the_table_says_how_to_go_on(self, run: Callable[..., Outcome]) -> None:
        run("import", "-", stdin=line("first") + line("second"))
        outcome = run("find", "--limit", "1")
        assert "second" in outcome.out
        cursor = outcome.err.partition("--cursor ")[2].strip()
        following = run("find", "--limit", "1", "--cursor", cursor)
        assert ("first" in following.out, following.err) == (True, "")
        assert run("find", "--limit", "1", "--cursor", cursor, "--filter", '{"id": "x"}').status == 2
        assert run("find", "--cursor", "!").status == 2

    def test_inactive_memories_are_asked_for(self, run: Callable[..., Outcome]) -> None:
        run("store", "x", "--id", "a")
        run("archive", "a")
        assert "no memories" in run("find").err
        assert "archived" in run("find", "--include-inactive").out
        assert "archived" in run("find", "--filter", '{"status": "archived"}').out
        assert run("count", "--include-inactive").out == "1\n"


#: Clears the screen, sets the title, C1 with the same, turns the writing round, and has a line of its own.
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \x85 \u202egnp.exe\u2066 a\r\nb\tc \x7f [bold]x[/bold] :smile:"


class TestHostileContents:
    @pytest.fixture(autouse=True)
    def _stored(self, run: Callable[..., Outcome]) -> None:
        run(
            "store",
            HOSTILE,
            "--id",
            "a\x1b[31m\u202e",
            "--tag",
            HOSTILE,
            "--metadata",
            json.dumps({HOSTILE: HOSTILE}),
        )
        run("store", HOSTILE, "--id", "b")
        run("relate", "b", "a\x1b[31m\u202e", "supports", "--label", HOSTILE[:20])

    @pytest.mark.parametrize(
        "command",
        [
            ("find",),
            ("get", "a\x1b[31m\u202e"),
            ("search", "bold"),
            ("recall", "bold", "--explain"),
            ("related", "b"),
            ("history", "a\x1b[31m\u202e"),
            ("supersede", "a\x1b[31m\u202e", "x"),
            ("archive", "a\x1b[31m\u202e"),
            ("relate", "a\x1b[31m\u202e", "b", "related"),
            ("unrelate", "b", "a\x1b[31m\u202e", "supports"),
            ("get", "\x1b[2J\u202e"),
            ("delete", "\x1b[2J\u202e"),
            ("find", "--namespace", "\x1b[2J\u202e"),
        ],
    )
    def test_cannot_steer_a_terminal(self, run: Callable[..., Outcome], command: tuple[str, ...]) -> None:
        plain = run(*command)
        as_json = run(*command, "--json")
        for written in (plain.out, plain.err, as_json.out, as_json.err):
            assert not set(written) & set("\x1b\x07\x9b\x85\x7f\r\t\u202e\u2066")

    def test_comes_out_of_json_as_it_is(self, run: Callable[..., Outcome]) -> None:
        record = json.loads(run("get", "a\x1b[31m\u202e", "--json").out)
        assert (record["id"], record["content"], record["tags"]) == ("a\x1b[31m\u202e", HOSTILE, [HOSTILE])
        assert record["metadata"] == {HOSTILE: HOSTILE}


def test_wide_contents_fit_a_narrow_table_and_are_whole_in_json(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = "記憶🧠e\u0301" * 200
    run("store", wide, "--id", "x" * 255, "--metadata", json.dumps({"k": wide}))
    monkeypatch.setenv("COLUMNS", "70")
    for command in (("find",), ("get", "x" * 255), ("recall", "記憶", "--explain"), ("search", wide)):
        shown = run(*command).out
        assert "…" in shown
        assert max(cell_len(row) for row in shown.splitlines()) <= 70
        assert wide in run(*command, "--json").out.replace('\\"', '"')


@pytest.mark.parametrize(
    "command", [("find", "--json"), ("find",), ("recall", "memory"), ("export", "-"), ("migrate", "--sql")]
)
def test_a_reader_that_has_enough_is_no_traceback(
    run: Callable[..., Outcome], database: Database, command: tuple[str, ...]
) -> None:
    run("import", "-", stdin=b"".join(line(f"memory {n} " + "x" * 300) for n in range(1000)))
    limit = () if command[0] in ("export", "migrate") else ("--limit", "1000")
    with subprocess.Popen(
        [*COMMAND, *command, *limit, "--dsn", database.dsn],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Unbuffered, Python itself does not see that a write was cut short.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 1


def test_a_pipe_leads_from_find_to_delete(run: Callable[..., Outcome]) -> None:
    run("import", "-", stdin=b"".join(line(f"memory {n}") for n in range(5)))
    found = json.loads(run("find", "--limit", "3", "--json").out)["items"]
    ids = "\n".join(record["id"] for record in found).encode()
    assert run("delete", "-", stdin=ids).out == "3 deleted\n"
    assert run("count").out == "2\n"
