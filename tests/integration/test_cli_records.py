"""The commands on single memories, their relations and their lives."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from .command import COMMAND, Outcome, caller, stored, until_hangup

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


def got(run: Callable[..., Outcome], id_: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(run("get", id_, "--json").out)
    return record


class TestStoreAndGet:
    def test_every_field_comes_back(self, run: Callable[..., Outcome]) -> None:
        given = ["--id", "tea", "--tag", "a", "--tag", "b", "--importance", "0.25", "--confidence", "0.5"]
        given += ["--metadata", '{"n": [1e23, "ü"]}', "--type", "session", "--thread", "t", "--session", "s"]
        given += [
            "--expires-at",
            "2999-01-31T12:00:00+02:00",
            "--owner",
            "ana",
            "--reader",
            "*",
            "--writer",
            "ben",
        ]
        outcome = run("store", "-", *given, stdin="Tea ü\n".encode())
        assert outcome == Outcome(0, "stored tea in namespace 'default'\n", "")
        record = got(run, "tea")
        assert (
            record.items()
            >= {
                "id": "tea",
                "content": "Tea ü\n",
                "tags": ["a", "b"],
                "importance": 0.25,
                "confidence": 0.5,
                "metadata": {"n": [1e23, "ü"]},
                "memory_type": "session",
                "thread_id": "t",
                "session_id": "s",
                "expires_at": "2999-01-31T10:00:00.000000+00:00",
                "permissions": {"owner": "ana", "readers": ["*"], "writers": ["ben"]},
                "version": 1,
            }.items()
        )

    def test_the_same_key_stores_once(self, run: Callable[..., Outcome], database: Database) -> None:
        first = run("store", "x", "--idempotency-key", "k", "--json")
        assert json.loads(run("store", "x", "--idempotency-key", "k", "--json").out) == json.loads(first.out)
        assert len(stored(database.direct_dsn)) == 1
        assert run("store", "y", "--idempotency-key", "k").status == 1

    def test_the_table_leaves_out_what_holds_nothing(self, run: Callable[..., Outcome]) -> None:
        run("store", "x", "--id", "a", "--tag", "one")
        shown = run("get", "a").out
        assert "one" in shown
        assert "thread_id" not in shown

    def test_what_is_not_there_is_status_1(self, run: Callable[..., Outcome]) -> None:
        assert run("get", "nobody") == Outcome(
            1, "", "postgres-memory: no memory 'nobody' in namespace 'default'\n"
        )

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--importance", "2"),
            ("--importance", "nan"),
            ("--expires-at", "tomorrow"),
            ("--type", "lasting"),
            ("--id", ""),
            ("--id", "x" * 256),
            ("--tag", "\udcff"),
            ("--owner", ""),
        ],
    )
    def test_bad_fields_store_nothing(
        self, run: Callable[..., Outcome], database: Database, wrong: tuple[str, str]
    ) -> None:
        outcome = run("store", "x", *wrong)
        assert (outcome.status, outcome.out) == (2, "")
        assert "Traceback" not in outcome.err
        assert stored(database.direct_dsn) == []


class TestUpdate:
    def test_what_is_not_named_stays(self, run: Callable[..., Outcome]) -> None:
        run("store", "x", "--id", "a", "--tag", "one", "--metadata", '{"a": 1}', "--reader", "ben")
        before = got(run, "a")
        assert run("update", "a", "--metadata", '{"b": 2}', "--writer", "cid").out == "a is at version 2\n"
        assert run("update", "a", "--content", "-", stdin=b"y").status == 0
        after = got(run, "a")
        changed = {"content": "y", "metadata": {"a": 1, "b": 2}, "version": 3}
        changed["permissions"] = {"owner": "system", "readers": ["ben"], "writers": ["cid"]}
        for name in ("updated_at", "last_accessed", "access_count"):
            before.pop(name)
            after.pop(name)
        assert after == before | changed

    def test_replacing_and_clearing(self, run: Callable[..., Outcome]) -> None:
        run(
            "store",
            "x",
            "--id",
            "a",
            "--tag",
            "one",
            "--metadata",
            '{"a": 1}',
            "--thread",
            "t",
            "--reader",
            "b",
        )
        cleared = [part for name in ("tags", "thread", "readers") for part in ("--clear", name)]
        outcome = run(
            "update", "a", "--metadata", '{"b": 2}', "--metadata-mode", "replace", *cleared, "--json"
        )
        record = json.loads(outcome.out)
        assert (record["tags"], record["thread_id"], record["metadata"]) == ([], None, {"b": 2})
        assert record["permissions"]["readers"] == []

    def test_another_version_is_status_1(self, run: Callable[..., Outcome]) -> None:
        run("store", "x", "--id", "a")
        for change in (("--content", "y"), ("--reader", "ben")):
            outcome = run("update", "a", *change, "--expected-version", "7")
            assert outcome.status == 1
            assert "is at version 1, not 7" in outcome.err
        assert got(run, "a")["content"] == "x"

    @pytest.mark.parametrize("wrong", [(), ("--tag", "x", "--clear", "tags"), ("--metadata", "[]")])
    def test_what_says_nothing_or_two_things_is_refused(
        self, run: Callable[..., Outcome], wrong: tuple[str, ...]
    ) -> None:
        run("store", "x", "--id", "a")
        assert run("update", "a", *wrong).status == 2
        assert got(run, "a")["version"] == 1


class TestDelete:
    @pytest.fixture(autouse=True)
    def _three(self, run: Callable[..., Outcome]) -> None:
        for name in ("a", "b", "c"):
            run("store", f"memory {name}", "--id", name, "--tag", name)

    def left(self, run: Callable[..., Outcome]) -> int:
        return int(run("count", "--include-inactive").out)

    def test_ids(self, run: Callable[..., Outcome]) -> None:
        assert run("delete", "a", "c") == Outcome(0, "2 deleted\n", "")
        assert self.left(run) == 1

    def test_ids_from_a_pipe(self, run: Callable[..., Outcome]) -> None:
        assert run("delete", "-", stdin=b"a\nb\r\n\n").out == "2 deleted\n"
        assert self.left(run) == 1

    def test_an_id_that_is_not_there_is_status_1_and_stops_nothing(self, run: Callable[..., Outcome]) -> None:
        outcome = run("delete", "nobody", "a", "--json")
        assert outcome.status == 1
        assert json.loads(outcome.out) == {"dry_run": False, "deleted": 1, "missing": ["nobody"]}
        assert outcome.err == "postgres-memory: no memory 'nobody'\n"

    @pytest.mark.parametrize("which", [("a", "b"), ("--filter", '{"id": {"$in": ["a", "b"]}}')])
    def test_a_dry_run_deletes_nothing(self, run: Callable[..., Outcome], which: tuple[str, ...]) -> None:
        assert run("delete", *which, "--dry-run") == Outcome(0, "2 would be deleted\n", "")
        assert self.left(run) == 3

    def test_a_filter_counts_whatever_their_status(self, run: Callable[..., Outcome]) -> None:
        run("archive", "a")
        which = ("--filter", '{"tags": {"$containsAny": ["a", "b"]}}')
        assert run("delete", *which, "--dry-run").out == "2 would be deleted\n"
        assert run("delete", *which, "--yes").out == "2 deleted\n"
        assert self.left(run) == 1

    @pytest.mark.parametrize(
        "wrong",
        [
            (),
            ("a", "--all"),
            ("a", "--filter", '{"id": "a"}'),
            ("--filter", "{}", "--yes"),
            ("--filter", '{"tags": {"$containsAll": []}}', "--yes"),
            ("--filter", "[]", "--yes"),
            ("--filter", '{"nothing": 1}', "--yes"),
            ("--filter", '{"id": "a"}'),  # nobody can be asked
            ("--all",),
        ],
    )
    def test_what_is_unclear_deletes_nothing(
        self, run: Callable[..., Outcome], wrong: tuple[str, ...]
    ) -> None:
        outcome = run("delete", *wrong)
        assert (outcome.status, outcome.out) == (2, "")
        assert self.left(run) == 3

    def test_all(self, run: Callable[..., Outcome]) -> None:
        run("store", "theirs", "--namespace", "other")
        assert run("delete", "--all", "--yes").out == "3 deleted\n"
        assert run("count", "--namespace", "other").out == "1\n"

    @pytest.mark.parametrize(
        ("answer", "status", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 3), (b"\n", 1, 3), (b"", 130, 3)]
    )
    def test_a_person_is_asked(
        self, run: Callable[..., Outcome], database: Database, answer: bytes, status: int, left: int
    ) -> None:
        reader, writer = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, "delete", "--all", "--dsn", database.dsn],
            stdin=writer,
            stdout=subprocess.DEVNULL,
            stderr=writer,
        ) as process:
            os.close(writer)
            seen = b""
            while b"[y/N]" not in seen:
                seen += os.read(reader, 4096)
            assert b"Delete 3 memories of namespace 'default'?" in seen
            if answer:
                os.write(reader, answer)
            else:
                process.send_signal(signal.SIGINT)
            list(until_hangup(reader))
            assert process.wait(timeout=30) == status
        os.close(reader)
        assert self.left(run) == left


class TestRelations:
    @pytest.fixture(autouse=True)
    def _three(self, run: Callable[..., Outcome]) -> None:
        for name in ("a", "b", "c"):
            run("store", f"memory {name}", "--id", name)

    def test_relating_walking_and_removing(self, run: Callable[..., Outcome]) -> None:
        assert run("relate", "a", "b", "supports", "--confidence", "0.5").out == "a supports b\n"
        related = json.loads(
            run("relate", "b", "c", "related", "--label", "same", "--metadata", '{"n": 1}', "--json").out
        )
        assert (related["relation_type"], related["label"], related["metadata"]) == (
            "related",
            "same",
            {"n": 1},
        )
        found = json.loads(run("related", "a", "--json").out)
        ways = [(item["record"]["id"], item["confidence"], item["path"]) for item in found["items"]]
        assert ways == [("b", 0.5, ["a", "b"]), ("c", 0.5, ["a", "b", "c"])]
        shown = run("related", "a").out
        assert "supports b related [same]" in shown
        assert run("related", "c", "--type", "supports").out == ""
        assert run("unrelate", "b", "c", "related").status == 1
        assert run("unrelate", "b", "c", "related", "--label", "same").out == "b related c: removed\n"
        assert json.loads(run("unrelate", "a", "b", "supports", "--json").out) == {"removed": True}
        assert json.loads(run("unrelate", "a", "b", "supports", "--json").out) == {"removed": False}

    @pytest.mark.parametrize(
        ("wrong", "status"),
        [
            (("a", "b", "likes"), 2),
            (("a", "a", "supports"), 2),
            (("a", "b", "supports", "--confidence", "7"), 2),
            (("a", "b", "supports", "--metadata", "x"), 2),
            (("a", "nobody", "supports"), 1),
        ],
    )
    def test_what_cannot_be(self, run: Callable[..., Outcome], wrong: tuple[str, ...], status: int) -> None:
        outcome = run("relate", *wrong)
        assert (outcome.status, outcome.out) == (status, "")


class TestLives:
    def test_from_replaced_to_restored(self, run: Callable[..., Outcome]) -> None:
        run("store", "Mira lives in Porto.", "--id", "porto")
        outcome = run("supersede", "porto", "Mira lives in Braga.", "--id", "braga", "--importance", "0.75")
        assert outcome == Outcome(0, "stored braga in place of porto\n", "")
        assert got(run, "braga")["importance"] == 0.75
        assert run("supersede", "porto", "again").status == 1
        versions = json.loads(run("history", "braga", "--json").out)
        assert [(one["id"], one["status"]) for one in versions] == [
            ("porto", "superseded"),
            ("braga", "active"),
        ]
        assert run("history", "porto").out == run("history", "braga").out
        assert run("restore", "porto").out == "porto is active\n"
        assert json.loads(run("archive", "porto", "--json").out)["status"] == "archived"
        assert run("count").out == "0\n"
        for command in ("history", "restore", "archive"):
            assert run(command, "nobody").status == 1


class TestPrincipals:
    def test_a_principal_sees_and_changes_its_own(self, run: Callable[..., Outcome]) -> None:
        run("store", "of nobody", "--id", "system's")
        run("store", "of Ana, for Ben to read", "--id", "shared", "--owner", "ana", "--reader", "ben")
        own = json.loads(run("store", "of Ben", "--as", "ben", "--json").out)
        assert own["permissions"]["owner"] == "ben"
        listed = json.loads(run("find", "--as", "ben", "--json").out)["items"]
        assert [record["id"] for record in listed] == [own["id"], "shared"]
        assert run("count", "--as", "ben").out == "2\n"
        assert run("get", "system's", "--as", "ben").status == 1
        for words in (("search", "of nobody"), ("recall", "of nobody")):
            assert "nobody" not in run(*words, "--as", "ben", "--json").out
        outcome = run("delete", own["id"], "shared", "--as", "ben")
        assert (outcome.status, outcome.out) == (1, "")
        assert "memory 'shared': principal 'ben'" in outcome.err
        assert "stopped: 1 deleted" in outcome.err
        assert run("count").out == "2\n"

    @pytest.mark.parametrize("name", ["", "*", "system", "x" * 256])
    def test_what_is_no_principal(self, run: Callable[..., Outcome], name: str) -> None:
        assert run("find", "--as", name).status == 2
