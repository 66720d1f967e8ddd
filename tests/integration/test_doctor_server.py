"""`doctor` on the server, its settings, its sessions and roles: each fault is made, found, and gone after the fix."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from postgres_memory._doctor import server, sessions
from postgres_memory.config import MIGRATION_DSN_VARIABLE, Dsn
from postgres_memory.errors import ConfigurationError
from postgres_memory.migrations import migrate
from tests.conftest import Database, Server
from tests.pooler import find_pooler, pooler

from .examined import dsn_of, execute, finding, findings, healthy_database


def with_parameter(dsn: str, parameter: str) -> str:
    return f"{dsn}{'&' if '?' in dsn else '?'}{parameter}"


@asynccontextmanager
async def login_of(database: Database, name: str, *options: str) -> AsyncIterator[str]:
    """A role that may log in, and its DSN."""
    role = f"{name}_{database.name}"
    await execute(database, f"CREATE ROLE {role} LOGIN {' '.join(options)}")
    try:
        yield dsn_of(database.direct_dsn, role)
    finally:
        await execute(database, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


class TestSettings:
    async def test_synchronous_commit_by_where_it_was_said(self, database: Database) -> None:
        """The server of the tests is started with it off, which an own setting of the database overrides."""
        async with PostgresMemory(database.direct_dsn) as memory:
            one = await finding(memory, "synchronous_commit")
        assert (one.severity, one.data["value"]) == ("warning", "off")
        assert "the server is started with" in str(one.fix)
        await execute(database, f'ALTER DATABASE "{database.name}" SET synchronous_commit = on')
        async with PostgresMemory(with_parameter(database.direct_dsn, "synchronous_commit=off")) as memory:
            one = await finding(memory, "synchronous_commit")
        assert (one.severity, one.data["source"]) == ("warning", "client")
        assert "out of the DSN" in str(one.fix)
        await execute(database, f'ALTER DATABASE "{database.name}" SET synchronous_commit = off')
        async with PostgresMemory(database.direct_dsn) as memory:
            one = await finding(memory, "synchronous_commit")
        assert one.severity == "warning"
        await execute(database, str(one.fix))
        async with PostgresMemory(database.direct_dsn) as memory:
            assert (await finding(memory, "synchronous_commit")).severity == "ok"

    async def test_of_a_role_and_of_the_whole_server(self) -> None:
        async with healthy_database(max_prepared_transactions="2") as database:
            admin = Database(Server(dsn_of(database.dsn, "postgres")), "healthy")
            await execute(admin, "ALTER ROLE app SET synchronous_commit = off")
            await execute(
                admin, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)"
            )
            async with PostgresMemory(database.dsn) as memory:
                found = await memory.doctor()
            commit, vacuum = found.of("synchronous_commit")[0], found.of("autovacuum")[0]
            assert commit.fix == 'ALTER ROLE "app" SET synchronous_commit = on;'
            assert vacuum.severity == "warning"
            assert found.of("durability")[0].severity == "ok"
            await execute(
                admin, *str(f"{commit.fix} {vacuum.fix}").rstrip(";").split(";"), "SELECT pg_sleep(0.2)"
            )
            await self.a_transaction_that_was_prepared(database, admin)
            await self.the_role_of_principals(database, admin)
            await self.handed_over(admin)
            async with PostgresMemory(database.dsn) as memory:
                found = await memory.doctor()
                assert [(one.check, one.seen) for one in found.findings if one.severity != "ok"] == []

    async def handed_over(self, admin: Database) -> None:
        """What the documentation says hands a database over that a superuser migrated."""
        page = Path(__file__).parent.parent.parent / "docs" / "howto" / "check-a-database.md"
        (block,) = re.findall(r"runs this -->\n```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        await execute(
            admin, "CREATE DATABASE second TEMPLATE template0 ENCODING 'UTF8'", "CREATE ROLE other LOGIN"
        )
        second = Database(admin.server, "second")
        await migrate(Dsn(second.dsn))
        await execute(second, re.sub(r"\bapp\b", "other", block))
        async with PostgresMemory(dsn_of(second.dsn, "other")) as memory:
            found = await memory.doctor()
            assert [(one.check, one.seen) for one in found.findings if one.severity != "ok"] == []
            await memory.as_principal("somebody").store("mine")
            assert await memory.count() == 1
            assert (await memory.check_isolation()).ok

    async def a_transaction_that_was_prepared(self, database: Database, admin: Database) -> None:
        await execute(admin, "BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'it''s mine'")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sessions, "PREPARED_SECONDS", 0.0)
            async with PostgresMemory(database.dsn) as memory:
                one = await finding(memory, "idle_transactions")
        assert (one.severity, one.data["gid"]) == ("warning", "it's mine")
        await execute(admin, str(one.fix).split(";", maxsplit=1)[0])

    async def the_role_of_principals(self, database: Database, admin: Database) -> None:
        role = "postgres_memory_principal"
        await execute(admin, f"ALTER ROLE {role} BYPASSRLS")
        async with PostgresMemory(database.dsn) as memory:
            one = await finding(memory, "row_level_security")
            assert (one.severity, one.data["role"]) == ("problem", role)
            await execute(admin, str(one.fix))
            assert (await finding(memory, "row_level_security")).severity == "ok"
            await execute(admin, f"REVOKE {role} FROM app", f"GRANT app TO {role}")
            one = await finding(memory, "row_level_security")
            assert (one.severity, one.data["role"]) == ("problem", role)
            await execute(admin, str(one.fix))
            assert (await finding(memory, "row_level_security")).severity == "ok"
            await execute(admin, f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA memory FROM {role}")
            one = await finding(memory, "row_level_security")
            assert (one.severity, one.fix) == ("problem", "postgres-memory migrate")
            await execute(
                admin, f"GRANT EXECUTE ON FUNCTION memory.set_access(text, text, text[], text[]) TO {role}"
            )

    async def test_no_durability(self, database: Database, memory: PostgresMemory) -> None:
        """The server of the tests has none."""
        found = await findings(memory, "durability")
        assert [one.severity for one in found] == ["problem", "problem"]
        assert [one.seen.split()[0] for one in found] == ["fsync", "full_page_writes"]

    async def test_read_only(self, database: Database) -> None:
        await execute(database, f'ALTER DATABASE "{database.name}" SET default_transaction_read_only = on')
        async with PostgresMemory(database.direct_dsn) as memory:
            one = await finding(memory, "writable")
        assert one.severity == "problem"
        await execute(database, f"BEGIN READ WRITE; {one.fix} COMMIT")
        async with PostgresMemory(database.direct_dsn) as memory:
            assert (await finding(memory, "writable")).severity == "ok"

    async def test_a_server_that_is_too_old(
        self, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "MINIMUM_SERVER", 990000)
        assert (await finding(memory, "server_version")).severity == "problem"

    async def test_a_schema_of_the_extension_that_may_not_be_entered(self, database: Database) -> None:
        async with login_of(database, "outside") as dsn:
            await execute(database, "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
            memory = PostgresMemory(dsn)
            try:
                one = await finding(memory, "extension_schema")
                assert (one.severity, one.data["schema"]) == ("problem", "public")
                await execute(database, str(one.fix))
                assert (await finding(memory, "extension_schema")).severity == "ok"
            finally:
                await memory.close()


class TestSessions:
    async def test_more_connections_than_the_login_may_have(self, database: Database) -> None:
        async with login_of(database, "few", "CONNECTION LIMIT 5") as dsn:
            role = f"few_{database.name}"
            await execute(
                database,
                f"GRANT USAGE ON SCHEMA memory TO {role}",
                f"GRANT SELECT ON memory.alembic_version TO {role}",
            )
            async with PostgresMemory(dsn) as memory:
                one = await finding(memory, "connections")
                assert (one.severity, one.data["available"], one.data["pool_max_size"]) == ("problem", 5, 10)
                await execute(database, str(one.fix))
                assert (await finding(memory, "connections")).severity == "ok"
            async with PostgresMemory(dsn) as memory:
                await execute(database, f'ALTER DATABASE "{database.name}" CONNECTION LIMIT 4')
                one = await finding(memory, "connections")
                assert (one.severity, one.data["available"]) == ("problem", 4)
                await execute(database, str(one.fix))
                assert (await finding(memory, "connections")).severity == "ok"

    async def test_more_connections_than_the_server_takes(self, database: Database) -> None:
        async with PostgresMemory(database.direct_dsn, pool_max_size=500) as memory:
            one = await finding(memory, "connections")
        assert one.severity == "problem"
        assert "max_connections" in str(one.fix)

    async def test_almost_no_connection_is_left(
        self, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sessions, "CROWDED", 0.0)
        assert (await finding(memory, "connections")).severity == "warning"

    async def test_idle_in_a_transaction(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert (await finding(memory, "idle_transactions")).severity == "ok"
        holder = await asyncpg.connect(database.direct_dsn)
        await holder.execute("BEGIN; SELECT 1")
        assert (await finding(memory, "idle_transactions")).severity == "ok"
        monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.0)
        one = await finding(memory, "idle_transactions")
        assert (one.severity, one.data["pid"]) == ("warning", holder.get_server_pid())
        await execute(database, str(one.fix).split(";", maxsplit=1)[0])
        assert (await finding(memory, "idle_transactions")).severity == "ok"
        holder.terminate()

    async def test_what_others_do_and_a_login_does_not_see(self, database: Database) -> None:
        async with login_of(database, "blind") as dsn:
            role = f"blind_{database.name}"
            memory = PostgresMemory(dsn)
            holder = await asyncpg.connect(database.direct_dsn)
            try:
                assert (await finding(memory, "idle_transactions")).severity == "ok"
                await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
                one = await finding(memory, "idle_transactions")
                assert (one.severity, one.checked) == ("notice", False)
                assert one.fix == f'GRANT pg_read_all_stats TO "{role}";'
                await execute(database, str(one.fix))
                assert (await finding(memory, "idle_transactions")).checked
            finally:
                await holder.close()
                await memory.close()

    async def test_an_old_snapshot(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sessions, "XMIN_AGE", 20)
        holder = await asyncpg.connect(database.direct_dsn)
        try:
            async with holder.transaction(isolation="repeatable_read"):
                await holder.fetchval("SELECT 1")
                for number in range(25):
                    await memory.store(f"content {number}")
                mine = [
                    one
                    for one in await findings(memory, "snapshots")
                    if one.data.get("pid") == holder.get_server_pid()
                ]
                assert [one.severity for one in mine] == ["warning"]
                assert str(holder.get_server_pid()) in str(mine[0].fix)
        finally:
            await holder.close()

    @pytest.mark.parametrize(
        ("seconds", "severity"), [(0.5, "ok"), (-20.0, "notice"), (20.0, "notice"), (1_000.0, "warning")]
    )
    async def test_clocks_that_disagree(
        self, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch, seconds: float, severity: str
    ) -> None:
        wrong = SimpleNamespace(time=lambda: time.time() - seconds, perf_counter=time.perf_counter)
        monkeypatch.setattr(sessions, "time", wrong)
        one = await finding(memory, "clock")
        assert one.severity == severity
        assert one.data["skew_seconds"] == pytest.approx(seconds, abs=0.4)

    async def test_queries_that_are_compiled(
        self, database: Database, memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The embedded server cannot compile, so that it is told that it can."""
        compiles = sessions.compiles
        monkeypatch.setattr(
            sessions, "compiles", lambda jit, _available, cost, above: compiles(jit, True, cost, above)
        )
        await memory.add_many([f"content {number}" for number in range(500)])
        await execute(
            database,
            "ANALYZE",
            f'ALTER DATABASE "{database.name}" SET jit_above_cost = 5; ALTER DATABASE '
            f'"{database.name}" SET jit = on',
        )
        async with PostgresMemory(database.direct_dsn) as other:
            assert (await finding(other, "jit")).severity == "notice"
        await execute(database, f'ALTER DATABASE "{database.name}" SET jit = off')
        async with PostgresMemory(database.direct_dsn) as other:
            assert (await finding(other, "jit")).severity == "ok"

    def test_what_is_compiled(self) -> None:
        assert sessions.exact_search_cost(2_500, 100_000) == pytest.approx(5_500)
        assert sessions.exact_search_cost(0, -1) == 0
        assert sessions.compiles("on", True, 5_500, 5_000)
        assert not sessions.compiles("on", True, 5_500, 100_000)
        assert not sessions.compiles("on", True, 5_500, -1)
        assert not sessions.compiles("off", True, 5_500, 0)
        assert not sessions.compiles("on", False, 5_500, 0)


class TestAccess:
    async def test_a_superuser(self, memory: PostgresMemory) -> None:
        one = await finding(memory, "trusted_login")
        assert (one.severity, one.data["superuser"]) == ("notice", True)

    async def test_a_login_that_policies_bind(self, database: Database) -> None:
        async with login_of(database, "bound") as dsn:
            role = f"bound_{database.name}"
            await execute(
                database,
                f"GRANT USAGE ON SCHEMA memory TO {role}",
                f"GRANT SELECT ON memory.alembic_version TO {role}",
            )
            async with PostgresMemory(dsn) as memory:
                one = await finding(memory, "trusted_login")
            assert (one.severity, one.data["acts_as_owner"]) == ("problem", False)
            assert str(one.fix).startswith('GRANT "postgres" TO')

    async def test_a_table_without_policies(self, database: Database, memory: PostgresMemory) -> None:
        assert (await finding(memory, "row_level_security")).severity == "ok"
        await execute(database, "ALTER TABLE memory.session_messages DISABLE ROW LEVEL SECURITY")
        one = await finding(memory, "row_level_security")
        assert (one.severity, one.data["table"]) == ("problem", "session_messages")
        await execute(database, str(one.fix))
        assert (await finding(memory, "row_level_security")).severity == "ok"


class TestPooler:
    async def test_no_pooler(self, database: Database) -> None:
        async with PostgresMemory(database.direct_dsn) as memory:
            one = await finding(memory, "pooler")
        assert (one.severity, one.data["direct"]) == ("ok", True)

    async def test_behind_a_pooler(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(MIGRATION_DSN_VARIABLE, raising=False)
        program = find_pooler()
        if program is None:
            pytest.skip("PgBouncer is not installed")
        # None is kept prepared for a client, as before PgBouncer 1.21.
        with pooler(program, database.server.dsn) as pooled:
            dsn = Server(pooled).dsn_of(database.name)
            async with PostgresMemory(dsn) as memory:
                found = await memory.doctor()
            one = found.of("pooler")[0]
            assert (one.severity, one.data["direct"], one.data["way_past"]) == ("notice", False, False)
            assert MIGRATION_DSN_VARIABLE in str(one.fix)
            assert [each.seen for each in found.findings if not each.checked] == []
            async with PostgresMemory(dsn, migration_dsn=dsn) as memory:  # as --dsn of a command
                assert (await finding(memory, "pooler")).severity == "notice"
                await execute(database, "DROP INDEX memory.memories_importance_idx")
                with pytest.raises(ConfigurationError):
                    await memory.doctor(repair=True)
            async with PostgresMemory(dsn, migration_dsn=database.direct_dsn) as memory:
                assert (await finding(memory, "pooler")).severity == "ok"
                await execute(database, "DROP INDEX memory.memories_updated_at_idx")
                assert (await memory.doctor(repair=True)).of("indexes")[0].severity == "ok"
            if one.data["prepared_statements_last"]:
                return
            async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as keeping:
                one = await finding(PostgresMemory(keeping, migration_dsn=database.direct_dsn), "pooler")
            assert (one.severity, one.data["kept"]) == ("problem", True)
            async with asyncpg.create_pool(dsn, min_size=1, max_size=1, statement_cache_size=0) as careful:
                memory = PostgresMemory(careful, migration_dsn=database.direct_dsn)
                assert (await finding(memory, "pooler")).severity == "ok"
