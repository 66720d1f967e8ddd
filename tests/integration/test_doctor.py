"""`doctor` as a whole: nothing is wrong with what is well, nothing is changed, and what may not be seen is said."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

import asyncpg
import pytest

from postgres_memory import Diagnosis, Finding, PostgresMemory, Repair
from postgres_memory._doctor import examining
from postgres_memory._doctor.doctor import CHECKS
from postgres_memory.doctor_records import SEVERITIES
from postgres_memory.errors import DatabaseUnavailableError, UsageError
from tests.conftest import Database
from tests.embedders import WordEmbedder

from .examined import dsn_of, execute, finding, healthy_database

NAMES = [check.name for check in CHECKS]


class TestWhatIsWell:
    async def test_a_fresh_database_and_one_that_is_used(self) -> None:
        async with healthy_database() as database:
            async with PostgresMemory(database.dsn) as memory:
                found = await memory.doctor()
                assert [
                    (one.check, one.severity, one.seen) for one in found.findings if one.severity != "ok"
                ] == []
                assert [one.check for one in found.findings] == NAMES
                assert all(one.fix is None and one.checked for one in found.findings)
                assert (found.ok, found.severity, found.repairs) == (True, "ok", ())
            async with PostgresMemory(database.dsn, embedder=WordEmbedder()) as memory:
                await memory.add_many([f"content {number}" for number in range(3_000)])
                await memory.create_index("words")
                await execute(database, "VACUUM ANALYZE")
                found = await memory.doctor(repair=True)
                assert [(one.check, one.seen) for one in found.findings if one.severity != "ok"] == []
                assert found.repairs == ()
                assert found.of("hash_embeddings")[0].data["sampled"] == 200

    async def test_findings_are_json(self, memory: PostgresMemory) -> None:
        found = await memory.doctor()
        assert json.loads(json.dumps(asdict(found)))["findings"][0]["check"] == NAMES[0]

    async def test_nothing_is_written_and_nobody_is_kept_waiting(self) -> None:
        # On a server of its own, since transactions are numbered for all databases of a server.
        async with (
            healthy_database(autovacuum="off") as database,
            PostgresMemory(database.dsn) as memory,
            asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1) as pool,
            pool.acquire() as connection,
        ):
            await memory.add_many([f"content {number}" for number in range(100)])
            before = await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")
            locks: set[str] = set()
            examining_it = asyncio.create_task(memory.doctor())
            while not examining_it.done():
                locks |= {
                    row[0]
                    for row in await connection.fetch(
                        "SELECT mode FROM pg_locks WHERE locktype = 'relation' AND pid <> pg_backend_pid()"
                    )
                }
            await examining_it
            assert locks <= {"AccessShareLock"}
            assert await connection.fetchval("SELECT pg_current_xact_id()::text::bigint") == before + 1


class TestTheRecords:
    def test_the_worst_counts(self) -> None:
        for number, severity in enumerate(SEVERITIES):
            found = tuple(Finding("c", one, "seen") for one in SEVERITIES[: number + 1])
            assert Diagnosis(found).severity == severity
            assert Diagnosis(found).ok is (severity in ("ok", "notice"))
        assert Diagnosis(()).severity == "ok"
        assert Diagnosis((), (Repair("c", "s"),)).ok
        assert not Diagnosis((), (Repair("c", "s", "no"),)).ok


class TestWhatCannotBeSeen:
    async def test_a_database_without_a_schema(self, empty_database: Database) -> None:
        memory = PostgresMemory(empty_database.dsn)
        try:
            found = await memory.doctor()
        finally:
            await memory.close()
        assert found.severity == "problem"
        assert found.of("schema_revision")[0].fix == "postgres-memory migrate"
        assert found.of("vector_version")[0].severity == "problem"
        assert found.of("extension_schema")[0].severity == "problem"
        assert {one.check for one in found.findings} == set(NAMES)
        assert {one.check for one in found.findings if not one.checked} == {
            check.name for check in CHECKS if check.needs_tables
        }
        (replica,) = found.of("replica")
        assert (replica.severity, replica.seen) == (
            "ok",
            "no replica is set up, so that there is nothing to check",
        )

    async def test_a_login_without_rights(self, database: Database) -> None:
        role = f"nobody_{database.name}"
        await execute(
            database,
            f"CREATE ROLE {role} LOGIN",
            f"GRANT USAGE ON SCHEMA memory TO {role}",
            f"GRANT SELECT ON memory.alembic_version TO {role}",
        )
        try:
            async with PostgresMemory(dsn_of(database.dsn, role)) as memory:
                found = await memory.doctor()
            unseen = {one.check: one for one in found.findings if not one.checked}
            assert {"filled_spaces", "hash_embeddings", "large_spaces", "disk"} <= unseen.keys()
            for one in unseen.values():
                assert one.severity == "notice"
                assert one.seen.startswith("could not be checked: permission denied")
                assert role in str(one.fix)
            assert found.of("trusted_login")[0].severity == "problem"
            assert role in str(found.of("trusted_login")[0].fix)
        finally:
            await execute(database, f"DROP OWNED BY {role}", f"DROP ROLE {role}")

    async def test_a_table_that_somebody_changes_is_not_waited_for(
        self, database: Database, memory: PostgresMemory
    ) -> None:
        await memory.store("something")
        connection = await asyncpg.connect(database.direct_dsn)
        try:
            async with connection.transaction():
                await connection.execute("LOCK TABLE memory.memories IN ACCESS EXCLUSIVE MODE")
                async with asyncio.timeout(30):
                    found = await memory.doctor()
            one = found.of("hash_embeddings")[0]
            assert not one.checked
            assert "55P03" in one.seen
            assert found.of("server_version")[0].severity == "ok"
        finally:
            await connection.close()

    async def test_a_check_that_takes_too_long_is_given_up(
        self, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(examining, "_BEGIN", "BEGIN READ ONLY; SET LOCAL statement_timeout = '500ms'")
        monkeypatch.setattr("postgres_memory._doctor.sessions.CLOCK", "SELECT pg_sleep(5), 1.0 AS now")
        one = await finding(memory, "clock")
        assert not one.checked
        assert "57014" in one.seen

    async def test_no_answer_is_an_error(self) -> None:
        memory = PostgresMemory("postgresql://127.0.0.1:1/none")
        with pytest.raises(DatabaseUnavailableError):
            await memory.doctor()

    async def test_not_inside_a_transaction_and_not_for_principals(self, memory: PostgresMemory) -> None:
        async with memory.transaction() as inside:
            with pytest.raises(UsageError, match="outside of the transaction"):
                await inside.doctor()
        with pytest.raises(UsageError, match="trusted backend"):
            await memory.as_principal("somebody").doctor()
        with pytest.raises(UsageError, match="trusted backend"):
            await memory.as_principal("somebody").stats()


class TestTheSchema:
    async def test_an_old_revision(self, database: Database, memory: PostgresMemory) -> None:
        await execute(database, "UPDATE memory.alembic_version SET version_num = '0001'")
        other = PostgresMemory(database.dsn)
        try:
            one = await finding(other, "schema_revision")
        finally:
            await other.close()
        assert (one.severity, one.fix) == ("problem", "postgres-memory migrate")
        assert one.data["found"] == "0001"

    async def test_a_newer_revision(self, database: Database, memory: PostgresMemory) -> None:
        await execute(database, "UPDATE memory.alembic_version SET version_num = '9999'")
        assert (await finding(memory, "schema_revision")).severity == "notice"

    async def test_a_table_that_is_gone(self, database: Database, memory: PostgresMemory) -> None:
        await execute(database, "DROP TABLE memory.known_words")
        one = await finding(memory, "tables")
        assert (one.severity, one.data["missing"]) == ("problem", ["known_words"])
