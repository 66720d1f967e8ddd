"""The commands doctor and stats: tables for people, JSON for machines, exit statuses by severity."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from postgres_memory import PostgresMemory
from postgres_memory._doctor.doctor import CHECKS
from postgres_memory.cli.stats import bar, size, sparkline

from .command import Outcome, caller, execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Database


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return caller(monkeypatch, capsys)


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch, database: Database) -> Database:
    """A database where nothing is wrong, but for the server of the tests, which forgets what it is told."""
    checks = [check for check in CHECKS if check.name != "durability"]
    monkeypatch.setattr("postgres_memory._doctor.doctor.CHECKS", tuple(checks))
    execute(database.direct_dsn, f'ALTER DATABASE "{database.name}" SET synchronous_commit = on')
    return database


class TestDoctor:
    def test_nothing_is_wrong(self, run: Callable[..., Outcome], well: Database) -> None:
        outcome = run("doctor", "--dsn", well.direct_dsn)
        assert outcome.status == 0, outcome.out
        assert outcome.err == ""
        for check in CHECKS:
            assert check.name in outcome.out or check.name == "durability"
        assert "0 problems, 0 warnings, 1 notice, " in outcome.out  # the tests log in as a superuser

    def test_a_warning(self, run: Callable[..., Outcome], well: Database) -> None:
        execute(well.direct_dsn, f'ALTER DATABASE "{well.name}" SET synchronous_commit = off')
        outcome = run("doctor", "--dsn", well.direct_dsn)
        assert outcome.status == 3
        assert f'ALTER DATABASE "{well.name}" SET synchronous_commit = on;' in outcome.out.replace("\n", "")

    def test_what_many_checks_ask_for_is_said_once(
        self, run: Callable[..., Outcome], database: Database
    ) -> None:
        execute(database.direct_dsn, "DROP SCHEMA memory CASCADE")
        outcome = run("doctor", "--dsn", database.direct_dsn)
        assert outcome.status == 1
        assert outcome.out.count("postgres-memory migrate") == 1

    def test_a_problem_and_its_repair(self, run: Callable[..., Outcome], well: Database) -> None:
        execute(well.direct_dsn, "DROP INDEX memory.memories_updated_at_idx")
        outcome = run("doctor", "--dsn", well.direct_dsn)
        assert outcome.status == 1
        assert "1 problem" in outcome.out
        outcome = run("doctor", "--repair", "--dsn", well.direct_dsn)
        assert outcome.status == 0
        assert "repaired: CREATE INDEX CONCURRENTLY memories_updated_at_idx" in outcome.out
        assert "0 problems" in outcome.out

    def test_a_repair_that_fails(self, run: Callable[..., Outcome], well: Database) -> None:
        async def twice() -> None:
            async with PostgresMemory(well.direct_dsn) as memory:
                await memory.add_many(["a", "b"])

        asyncio.run(twice())
        execute(
            well.direct_dsn,
            "DROP INDEX memory.memories_content_key_key; UPDATE memory.memories SET content_key = 'same'",
        )
        outcome = run("doctor", "--repair", "--dsn", well.direct_dsn)
        assert outcome.status == 1
        assert "could not repair: CREATE UNIQUE INDEX CONCURRENTLY" in outcome.err
        assert "Traceback" not in outcome.err

    def test_json(self, run: Callable[..., Outcome], well: Database) -> None:
        execute(well.direct_dsn, "DROP INDEX memory.memories_updated_at_idx")
        outcome = run("doctor", "--json", "--dsn", well.direct_dsn)
        assert outcome.status == 1
        found: dict[str, Any] = json.loads(outcome.out)
        assert (found["ok"], found["severity"], found["repairs"]) == (False, "problem", [])
        (missing,) = [one for one in found["findings"] if one["severity"] == "problem"]
        assert missing["check"] == "indexes"
        assert missing["data"] == {"index": "memories_updated_at_idx", "table": "memories"}
        repaired = json.loads(run("doctor", "--json", "--repair", "--dsn", well.direct_dsn).out)
        assert repaired["ok"]
        assert [one["error"] for one in repaired["repairs"]] == [None]

    def test_a_replica_that_does_not_answer(self, run: Callable[..., Outcome], well: Database) -> None:
        outcome = run(
            "doctor", "--dsn", well.direct_dsn, "--read-dsn", "postgresql://me:s3cret@127.0.0.1:1/there"
        )
        assert outcome.status == 3
        assert "the replica cannot be read" in outcome.out
        assert "s3cret" not in outcome.out + outcome.err

    def test_no_answer_and_wrong_use(self, run: Callable[..., Outcome], well: Database) -> None:
        outcome = run("doctor", "--dsn", "postgresql://me:s3cret@127.0.0.1:1/there")
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.err.count("\n") == 1
        assert "s3cret" not in outcome.err
        assert run("doctor", "--dsn", "mysql://there").status == 2

    def test_the_help_says_what_the_statuses_mean(self, run: Callable[..., Outcome]) -> None:
        shown = run("doctor", "--help").out
        assert "3 at worst a warning" in " ".join(shown.split())


class TestStats:
    def test_a_table_and_a_drawing(self, run: Callable[..., Outcome], database: Database) -> None:
        run("store", "something", "--dsn", database.dsn)
        outcome = run("stats", "--days", "5", "--dsn", database.dsn)
        assert (outcome.status, outcome.err) == (0, "")
        for word in ("1 memory of namespace 'default'", "persistent", "memory_hash_embeddings", "valid"):
            assert word in outcome.out
        assert not any(line.startswith(" ") for line in outcome.out.splitlines())
        assert any(blocks in outcome.out for blocks in ("▁▁▁▁█", "____#"))

    def test_json(self, run: Callable[..., Outcome], database: Database) -> None:
        run("store", "something", "--dsn", database.dsn, "--namespace", "other")
        own = json.loads(run("stats", "--json", "--dsn", database.dsn).out)
        assert (own["namespace"], own["memories"], len(own["growth"])) == ("default", 0, 30)
        every = json.loads(
            run("stats", "--json", "--all-namespaces", "--days", "2", "--dsn", database.dsn).out
        )
        assert every["counts"] == [
            {"namespace": "other", "memory_type": "persistent", "status": "active", "memories": 1}
        ]
        assert [one["memories"] for one in every["growth"]] == [0, 1]
        assert run("stats", "--days", "0", "--dsn", database.dsn).status == 2


def test_drawing() -> None:
    low, high = sparkline([0]), sparkline([0, 1])[1]
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == low * 2
    assert sparkline([1, 1_000_000])[0] not in (low, high)
    assert bar(0, 10) == ""
    assert len(bar(1, 1_000_000)) == 1
    assert len(bar(5, 10)) * 2 == len(bar(10, 10))
    assert bar(0, 0) == ""
    assert [size(count).strip() for count in (0, 1023, 1024, 1024**3, 5 * 1024**4)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 GiB",
        "5.0 TiB",
    ]
