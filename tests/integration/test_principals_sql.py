"""What holds below the verbs: SQL of the application's own, connections that others used, texts that look like SQL."""

from __future__ import annotations

import asyncpg
import pytest

from postgres_memory import (
    MemoryPermissions,
    PostgresMemory,
    PostgresSession,
    PrincipalMemory,
    SyncPostgresMemory,
)
from postgres_memory._sql.policies import PRINCIPAL_ROLE
from postgres_memory.errors import DatabaseError, InvalidValueError, NotFoundError, PostgresMemoryError
from tests.conftest import Database

from .permission_model import TABLES, execute


async def as_principal(connection: asyncpg.Connection[asyncpg.Record], name: str) -> None:
    await connection.execute(
        f"SET LOCAL ROLE {PRINCIPAL_ROLE}; SET LOCAL postgres_memory.principal = '{name}'; "
        "SET LOCAL postgres_memory.namespace = 'default'"
    )


REFUSED = [
    "INSERT INTO memory.memories (namespace, id, content, owner) VALUES ('default', 'x', '', 'bob')",
    "INSERT INTO memory.memories (namespace, id, content) VALUES ('default', 'x', '')",
    "INSERT INTO memory.memories (namespace, id, content, owner) VALUES ('other', 'x', '', 'alice')",
    "INSERT INTO memory.memories (namespace, id, content, owner, supersedes) "
    "VALUES ('default', 'x', '', 'alice', 'hidden')",
    "INSERT INTO memory.memories (namespace, id, content, owner, supersedes) "
    "VALUES ('default', 'x', '', 'alice', 'nothing')",
    "INSERT INTO memory.memories (namespace, id, content, owner, content_key) "
    "VALUES ('default', 'x', 'a', 'alice', sha256('bob\\000b'))",
    "INSERT INTO memory.memories (namespace, id, content, owner, seq) OVERRIDING SYSTEM VALUE "
    "VALUES ('default', 'x', '', 'alice', 1)",
    "UPDATE memory.memories SET owner = 'bob' WHERE id = 'own'",
    "UPDATE memory.memories SET owner = 'alice' WHERE id = 'shared'",
    "UPDATE memory.memories SET readers = '{alice}' WHERE id = 'shared'",
    "UPDATE memory.memories SET writers = '{alice,*}' WHERE id = 'own'",
    "UPDATE memory.memories SET namespace = 'other' WHERE id = 'own'",
    "UPDATE memory.memories SET id = 'x' WHERE id = 'own'",
    "UPDATE memory.memories SET seq = DEFAULT WHERE id = 'own'",
    "UPDATE memory.memories SET supersedes = 'hidden' WHERE id = 'own'",
    "UPDATE memory.memories SET language = 'german' WHERE id = 'own'",
    "UPDATE memory.memories SET content_key = sha256('bob\\000b') WHERE id = 'own'",
    "INSERT INTO memory.memory_relations (namespace, source_id, relation_type, target_id) "
    "VALUES ('default', 'own', 'related', 'hidden')",
    "INSERT INTO memory.memory_relations (namespace, source_id, relation_type, target_id) "
    "VALUES ('default', 'own', 'related', 'nothing')",
    "INSERT INTO memory.memory_relations (namespace, source_id, relation_type, target_id) "
    "VALUES ('default', 'read', 'related', 'own')",
    "INSERT INTO memory.memory_embeddings (namespace, space, seq) SELECT 'default', 's', 2",
    "INSERT INTO memory.memory_access VALUES ('default', 'own', now(), 9)",
    "INSERT INTO memory.idempotency_keys VALUES ('default', 'bob', 'k', 'own', '', now())",
    "INSERT INTO memory.session_messages (namespace, session_id, message, owner) "
    "VALUES ('default', 's', '{}', 'bob')",
    "INSERT INTO memory.embedding_spaces VALUES ('default', 'x', 3)",
    "UPDATE memory.embedding_spaces SET status = 'retired'",
    "DELETE FROM memory.embedding_spaces",
    "INSERT INTO memory.namespace_settings VALUES ('default', 'german')",
    "INSERT INTO memory.write_tokens (namespace, token) VALUES ('default', gen_random_uuid())",
    "SELECT FROM memory.write_tokens",
    "DELETE FROM memory.write_tokens",
    "SELECT FROM memory.known_words",
    "INSERT INTO memory.known_words VALUES ('default', 'x', 1)",
    "DELETE FROM memory.known_words",
    "COPY memory.memories (namespace, id, content, owner) FROM STDIN",
    "TRUNCATE memory.memories CASCADE",
    "ALTER TABLE memory.memories DISABLE ROW LEVEL SECURITY",
    "DROP POLICY memories_select ON memory.memories",
    "SET LOCAL row_security = off; SELECT * FROM memory.memories",
    "CREATE FUNCTION memory.f() RETURNS int LANGUAGE sql RETURN 1",
]


@pytest.fixture
async def some(database: Database, memory: PostgresMemory) -> asyncpg.Connection[asyncpg.Record]:
    """Memories by the names of what alice may do, and a connection of the trusted backend's."""
    for id_, permissions in {
        "own": MemoryPermissions("alice"),
        "hidden": MemoryPermissions("bob"),
        "read": MemoryPermissions("bob", ("alice",)),
        "shared": MemoryPermissions("bob", (), ("alice",)),
    }.items():
        await memory.add(id_, id=id_, permissions=permissions)
    await memory.relate("own", "hidden", "related")
    await memory.relate("read", "own", "related")
    await execute(database, "INSERT INTO memory.embedding_spaces VALUES ('default', 's', 3)")
    return await asyncpg.connect(database.direct_dsn)


@pytest.mark.parametrize("statement", REFUSED)
async def test_sql_of_the_applications_own_is_refused(
    some: asyncpg.Connection[asyncpg.Record], statement: str
) -> None:
    """Under the role, whatever a WHERE forgets; the same where a memory is hidden and where there is none."""
    transaction = some.transaction()
    await transaction.start()
    await as_principal(some, "alice")
    refusals = asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError
    with pytest.raises(refusals):
        await some.execute(statement)
    await transaction.rollback()
    await some.close()


async def test_sql_of_the_applications_own_sees_what_it_may(
    some: asyncpg.Connection[asyncpg.Record],
) -> None:
    async with some.transaction():
        await as_principal(some, "alice")

        async def column(query: str) -> list[object]:
            return [row[0] for row in await some.fetch(query)]

        seen = ["own", "read", "shared"]
        assert await column("SELECT id FROM memory.memories ORDER BY seq") == seen
        assert await column("SELECT count(*) FROM memory.memory_hash_embeddings") == [3]
        assert await column("SELECT source_id FROM memory.memory_relations") == ["read"]
        assert await column("UPDATE memory.memories SET content = id RETURNING id") == ["own", "shared"]
        assert await column("DELETE FROM memory.memory_relations RETURNING source_id") == []
        assert await column("SELECT id FROM memory.memories FOR UPDATE") == ["own", "shared"]
        assert await column("DELETE FROM memory.memories RETURNING id") == ["own", "shared"]
        await some.execute("RESET ROLE")
        assert await column("SELECT id FROM memory.memories ORDER BY seq") == ["hidden", "read"]
    async with some.transaction():
        await some.execute(f"SET LOCAL ROLE {PRINCIPAL_ROLE}")
        for table in TABLES:
            assert await some.fetch(f"SELECT 1 FROM memory.{table}") == []
    await some.close()


async def test_what_policies_ask_tells_of_no_hidden_memory(
    some: asyncpg.Connection[asyncpg.Record],
) -> None:
    async with some.transaction():
        await as_principal(some, "alice")
        for id_, writable in {
            "own": True,
            "shared": True,
            "read": False,
            "hidden": False,
            "nothing": False,
        }.items():
            assert await some.fetchval("SELECT memory.may_write('default', $1)", id_) is writable
            permitted = "SELECT memory.set_access('default', $1, '{}', '{*}')"
            assert await some.fetchval(permitted, id_) is (True if id_ == "own" else None)
        assert await some.fetchval("SELECT writers FROM memory.memories WHERE id = 'own'") == ["*"]
    await some.close()


async def test_a_function_that_tells_what_it_sees_sees_no_hidden_row(
    database: Database, some: asyncpg.Connection[asyncpg.Record]
) -> None:
    """The policy is evaluated before it."""
    await some.execute("CREATE TEMP TABLE told (content text)")
    await some.execute(
        "CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS "
        "$$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"
    )
    told: list[str] = []
    some.add_log_listener(lambda _, message: told.append(message.message))
    async with some.transaction():
        await as_principal(some, "alice")
        await some.fetch("SELECT id FROM memory.memories WHERE pg_temp.tell(content)")
    assert sorted(told) == ["own", "read", "shared"]
    await some.close()


async def test_what_was_set_before_and_after_on_a_connection_does_not_matter(database: Database) -> None:
    """A connection of a pool that somebody used as somebody else; and nothing of ours is left on it."""
    async with (
        asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=1, reset=lambda _: _nothing()) as pool,
        PostgresMemory(pool) as memory,
    ):
        await memory.as_principal("alice").add("hers")
        await pool.execute("SET postgres_memory.principal = 'alice'")
        await pool.execute("SET postgres_memory.namespace = 'default'")
        assert await memory.as_principal("bob").count() == 0
        assert await memory.as_principal("alice").count() == 1
        assert await memory.count() == 1
        assert await pool.fetchval("SELECT current_setting('role')") == "none"
        assert await pool.fetchval("SELECT current_setting('postgres_memory.principal')") == "alice"


async def _nothing() -> None:
    """Reset nothing."""


async def test_a_callers_transaction_is_his_own_again_after_the_call(
    database: Database, memory: PostgresMemory
) -> None:
    alice = memory.as_principal("alice")
    connection = await asyncpg.connect(database.direct_dsn)

    async def state() -> list[str]:
        names = ("role", "postgres_memory.principal", "postgres_memory.namespace")
        settings = [await connection.fetchval("SELECT current_setting($1, true)", name) for name in names]
        return [setting or "" for setting in settings]

    try:
        async with connection.transaction():
            before = await state()
            assert before == ["none", "", ""]
            added = await alice.add("hers", connection=connection)
            assert [e.content for e in await alice.search("hers", connection=connection)] == ["hers"]
            assert await state() == before
            with pytest.raises(NotFoundError):
                await memory.as_principal("bob").get(added.id, connection=connection)
            assert await state() == before
            await as_principal(connection, "bob")
            assert await alice.count(connection=connection) == 1
            assert await state() == [PRINCIPAL_ROLE, "bob", "default"]
    finally:
        await connection.close()


async def test_a_block_of_a_principals(memory: PostgresMemory) -> None:
    alice, bob = memory.as_principal("alice"), memory.as_principal("bob")
    hidden = await bob.add("bob's kettle")
    async with alice.transaction() as tx:
        mine = await tx.add("alice's kettle")
        assert [e.content for e in await tx.search("kettle")] == ["alice's kettle"]
        assert [hit.record.content for hit in await tx.recall("kettle")] == ["alice's kettle"]
        with pytest.raises(NotFoundError):
            await tx.get(hidden.id)
        with pytest.raises(NotFoundError):
            await tx.relate(mine.id, hidden.id, "related")
        assert await tx.count() == 1
        assert await memory.count() == 1
    assert await memory.count() == 2
    with pytest.raises(InvalidValueError, match="limit"):
        await clear_and_fail(alice)
    assert await alice.count() == 1


async def clear_and_fail(seen: PrincipalMemory) -> None:
    async with seen.transaction() as tx:
        await tx.clear()
        await tx.find(limit=-1)


NASTY = [
    "'; RESET ROLE; --",
    "alice'; SET LOCAL postgres_memory.principal = 'bob",
    'a"; DROP TABLE memory.memories; --',
    "\\'; RESET ROLE; --",
    "\\",
    "$$; RESET ROLE; $$",
    "%s %(name)s :name $1 {0}",
    "a\nb\t/* */",
    "Ünïcødé 記憶 🧠",
    "x" * 255,
    "NULL",
    "none",
]


@pytest.mark.parametrize("text", NASTY)
async def test_no_text_is_taken_for_sql(database: Database, text: str) -> None:
    """Through every argument that is a text, as the name of a principal and of a namespace too."""
    async with PostgresMemory(database.dsn, namespace=text) as memory:
        bob = await memory.as_principal("bob").add("bob's own")
        one, other = memory.as_principal(text), memory.as_principal("x" + text[1:] if text[0] != "x" else "y")
        permissions = MemoryPermissions(readers=(text,), writers=(text,))
        metadata = {text: text}
        added = await one.add(
            text,
            permissions=permissions,
            metadata=metadata,
            tags=[text],
            thread_id=text,
            session_id=text,
            idempotency_key=text,
            dedupe="content",
        )
        assert added.permissions == MemoryPermissions(text, (text,), (text,))
        assert await one.get(added.id) == added
        await one.store(text, metadata)
        assert (await one.add_many([{"content": text, "tags": [text], "metadata": metadata}])).stored == 1
        related = await one.add("other")
        await one.relate(added.id, related.id, "related", label=text, metadata=metadata)
        assert [r.label for r in await one.relations(added.id)] == [text]
        assert await one.unrelate(added.id, related.id, "related", label=text)
        for condition in ({"tags": {"$contains": text}}, {"thread_id": text}, {"owner": text}):
            assert await one.count(condition) >= 1
            assert await other.count(condition) == 0
        assert len(await one.search(text, limit=9)) == len(await one.recall(text, limit=9)) == 4
        assert (
            await one.update(added.id, content=text + "!", metadata=metadata, metadata_mode="merge")
        ).content
        for call in (one.get(text), one.get(bob.id), one.history(text), one.update(text, content="x")):
            with pytest.raises(NotFoundError):
                await call
        assert not await one.delete(text)
        assert await other.count() == 0
        session = PostgresSession(database.dsn, text, namespace=text, principal=text)
        await session.add_messages([{text: text}])
        assert await session.get_messages() == [{text: text}]
        await session.clear(memories=True)
        assert await session.get_messages() == []
        await session.close()
        await one.clear()
        assert await memory.count() == 1
        assert (await memory.check_isolation()).ok


async def test_messages_are_of_who_added_them(database: Database) -> None:
    sessions = {name: PostgresSession(database.dsn, "s", principal=name) for name in ("alice", "bob", None)}
    for name, session in sessions.items():
        await session.add_messages([{"by": name}])
    assert await sessions["alice"].get_messages() == [{"by": "alice"}]
    assert await sessions["bob"].get_messages(5) == [{"by": "bob"}]
    assert len(await sessions[None].get_messages()) == 3
    await sessions["alice"].clear()
    assert await sessions[None].get_messages() == [{"by": "bob"}, {"by": None}]
    for session in sessions.values():
        await session.close()


async def test_the_synchronous_form(database: Database, memory: PostgresMemory) -> None:
    from asyncio import to_thread

    def use() -> list[str]:
        with SyncPostgresMemory(database.dsn) as sync:
            alice = sync.as_principal("alice")
            alice.store("hers")
            with alice.transaction() as tx:
                tx.store("hers too")
            assert alice.principal == "alice"
            assert sync.as_principal("bob").count() == 0
            assert sync.check_isolation().ok
            return [entry.content for entry in alice.search("hers", limit=9)]

    assert await to_thread(use) == ["hers", "hers too"]
    assert await memory.count() == 2


async def test_errors_are_of_our_kind(memory: PostgresMemory, database: Database) -> None:
    await execute(database, f"REVOKE ALL ON memory.memories FROM {PRINCIPAL_ROLE}")
    with pytest.raises(DatabaseError, match="permission denied") as raised:
        await memory.as_principal("alice").count()
    assert isinstance(raised.value, PostgresMemoryError)
