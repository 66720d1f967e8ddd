"""`check_isolation`: try, live, what a principal must not be able to do; everything tried is rolled back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._driver_errors import translated
from .._principal import RESTORING, Principal
from .._sql.policies import NAMESPACE_SETTING, PRINCIPAL_SETTING
from .._transactions import LocalSettings
from .._writing.adding import add, addition_of, once, prepare
from ..errors import ConfigurationError, DatabaseError
from ..ids import new_id
from ..listing_records import Isolation
from ..records import MemoryPermissions, MemoryRelation, MemoryRelationType

if TYPE_CHECKING:
    from asyncpg import Record

    from .._sql.compile import StatementBuilder

_NO_RIGHT, _CONSTRAINTS = "42501", "23"
_OWNER, _STRANGER = "postgres-memory owner", "postgres-memory stranger"
_READER, _WRITER = "postgres-memory reader", "postgres-memory writer"

#: What keeps policies from holding, as `POWERS` says it of a role; each stands behind "the role …".
_POWERS = {
    "superuser": "is a superuser, whom no policy binds",
    "bypasses": "has BYPASSRLS, so that no policy binds it",
    "owns": "owns tables of the schema, so that their policies do not bind it",
    "replicates": "has REPLICATION, and reads what others write",
    "opens_files": "opens files of the server",
    "grants_roles": "has CREATEROLE, with which it gives itself the rights of the tables' owner",
}


class _Undone(Exception):  # noqa: N818
    """Ends a transaction that is to be rolled back."""


@dataclass(slots=True)
class _Trial:
    """What was tried in one namespace, which exists for the time of the trial alone."""

    context: Context
    role: str
    problems: list[str] = field(default_factory=list)
    attempts: int = 0

    def as_(self, name: str, namespace: str | None = None) -> Context:
        """Return the context of a principal, who may say that it is in another namespace."""
        named = self.context.namespace if namespace is None else namespace
        return replace(self.context, principal=Principal(name, named, self.role))

    async def expect(
        self,
        who: Context,
        expected: str,
        problem: str,
        builder: StatementBuilder,
        *shape: str,
        **named: Any,
    ) -> None:
        """Try a statement: it must find ``nothing``, find ``something``, or be ``refused``."""
        self.attempts += 1
        parameters = {"namespace": self.context.namespace, **named}
        try:
            async with who.transaction() as inside:
                rows = await inside.fetch(builder, parameters, *shape)
        except DatabaseError as error:
            state = error.sqlstate or ""
            if state != _NO_RIGHT and not state.startswith(_CONSTRAINTS):
                raise
            # A constraint is looked at after the policies, which then have let it through.
            found = "refused" if state == _NO_RIGHT else "something"
        else:
            found = "something" if rows and rows[0][0] else "nothing"
        if found != expected and (found, expected) != ("refused", "nothing"):
            self.problems.append(f"{problem} ({expected} was to be expected, and it found {found})")


async def check_isolation(context: Context, role: str, login: Context | None) -> Isolation:
    """Look at the role and the tables, then try; with a ``login`` for untrusted SQL, look at that one as well."""
    facts = await _facts(context, role)
    problems, warnings = _problems(facts, role), _warnings(facts)
    problems += await _powers(context, role)
    trial = _Trial(replace(context, namespace=f"isolation {new_id()}", embedder=None, toucher=None), role)
    if facts["there"]:
        await _try(trial)
    if login is not None:
        trial.attempts += 1
        problems += await _try_login(context, login)
    problems += trial.problems
    return Isolation(not problems, tuple(problems), tuple(warnings), trial.attempts, role, facts["login"])


async def _facts(context: Context, role: str) -> dict[str, Any]:
    from .._sql.probing import FACTS

    schema = (await context.database.opened()).tables.schema
    async with context.database.transaction() as connection:
        with translated():
            (row,) = await connection.fetch(FACTS, schema, role)
    return dict(row)


def _problems(facts: dict[str, Any], role: str) -> list[str]:
    found = [f"row-level security is not enabled on {name}" for name in facts["unprotected"]]
    if not facts["there"]:
        found.append(f"the server has no role {role!r} for principals to act as; migrate again")
    return found


async def _powers(context: Context, role: str) -> list[str]:
    """Say what a role can do that no policy keeps it from, by itself or as a role it is a member of."""
    from .._sql.probing import POWERS

    schema = (await context.database.opened()).tables.schema
    async with context.database.transaction() as connection:
        with translated():
            rows = await connection.fetch(POWERS, schema, role)
    found = []
    for row in rows:
        who = f"the role {role!r}" + ("" if row["itself"] else f" is a member of {row['name']!r}, which")
        found += [f"{who} {power}" for name, power in _POWERS.items() if row[name]]
    return found or _rights(rows, role)  # of those, there would be more than can be read


def _rights(rows: list[Record], role: str) -> list[str]:
    runs = "where the backend looks for functions and operators, and so runs those of others"
    found = []
    for row in rows:
        found += [
            f"the role {role!r} has the right {right}, which no policy limits" for right in row["rights"]
        ]
        found += [
            f"the role {role!r} may create in schema {schema!r}, {runs}" for schema in row["creates_in"]
        ]
        if row["creates_schemas"]:
            found.append(
                f"the role {role!r} may create schemas in this database, also one of the backend's name, {runs}"
            )
    return found


def _warnings(facts: dict[str, Any]) -> list[str]:
    if not facts["superuser"]:
        return []
    return [f"the login {facts['login']!r} is a superuser; the trusted backend needs no more than the tables"]


async def _try(trial: _Trial) -> None:
    try:
        async with trial.context.transaction() as inside:
            trial.context = inside
            await _try_all(trial, await _prepare(trial))
            raise _Undone
    except _Undone:
        pass
    except ConfigurationError as error:
        trial.problems.append(str(error))
    except DatabaseError as error:
        if error.sqlstate != _NO_RIGHT:
            raise
        trial.problems.append(f"a principal may not do what it must: {error}")


async def _prepare(trial: _Trial) -> dict[str, Any]:
    """Store a row in each table, as the owner and where need be as the trusted backend.

    Returns what names the owner's memories: one that is hidden, and one that has a reader and a writer.
    """
    from .._sql.probing import insert_row, number_of, prepare_access, prepare_vector
    from .._sql.sessions import add_messages

    owner, trusted = trial.as_(_OWNER), trial.context
    first = addition_of(owner, "one", {})
    await add(owner, first, await prepare(owner, first))
    fields = {
        "relations": [MemoryRelation(first.record.id, MemoryRelationType.RELATED)],
        "permissions": MemoryPermissions(_OWNER, (_READER,), (_WRITER,)),
    }
    second = addition_of(owner, "two", fields)
    prepared = await prepare(owner, second)
    await once(owner, second, "key", lambda inside: add(inside, second, prepared))
    key = {"namespace": trusted.namespace, "session_id": "session", "messages": ["{}"], "owner": _OWNER}
    await owner.once(add_messages, key)
    await trusted.fetch(prepare_vector, key)
    await trusted.fetch(prepare_access, key)
    key |= {"id": new_id(), "word": "word", "memory_id": first.record.id}
    for table in ("namespace_settings", "known_words", "write_tokens", "changes"):
        await trusted.fetch(insert_row, key, table)
    ((seq,),) = await trusted.fetch(number_of, key | {"id": first.record.id})
    return {"hidden": first.record.id, "shared": second.record.id, "seq": seq}


async def _try_all(trial: _Trial, there: dict[str, Any]) -> None:
    await _try_rows(trial)
    await _try_lists(trial, there)
    await _try_inserts(trial, there)


async def _try_rows(trial: _Trial) -> None:
    """Read, overwrite and delete what is somebody else's, or the backend's."""
    from .._sql.probing import (
        OF_BACKEND,
        OF_NAMESPACE,
        PROBED,
        TOLD,
        count_rows,
        delete_rows,
        overwrite_rows,
    )

    owner, elsewhere = trial.as_(_OWNER), trial.as_(_OWNER, "another namespace")
    others = {
        "a principal": trial.as_(_STRANGER),
        "nobody": trial.as_(""),
        "a principal of another namespace": elsewhere,
    }
    for table in (*PROBED, *OF_NAMESPACE, *OF_BACKEND, *TOLD):
        for name, who in others.items():
            if table not in OF_NAMESPACE or name != "a principal":
                await trial.expect(who, "nothing", f"{name} read rows of {table}", count_rows, table)
        seen = "nothing" if table in OF_BACKEND or table in TOLD else "something"
        await trial.expect(owner, seen, f"the owner read {table}", count_rows, table)
        stranger = others["a principal"]
        await trial.expect(stranger, "nothing", f"a principal wrote {table}", overwrite_rows, table)
        await trial.expect(stranger, "nothing", f"a principal deleted of {table}", delete_rows, table)


async def _try_lists(trial: _Trial, there: dict[str, Any]) -> None:
    """Do as a reader what takes a writer, and as a writer what takes the owner."""
    from .._sql.changing import change_access
    from .._sql.probing import ACCESS, PROBED, count_rows, delete_rows, overwrite_rows
    from .._sql.records import is_writable

    reader, writer = trial.as_(_READER), trial.as_(_WRITER)
    hidden, shared = there["hidden"], there["shared"]
    for name, who in (("a reader", reader), ("a writer", writer)):
        await trial.expect(who, "something", f"{name} read a memory", count_rows, "memories")
        for table in ("memory_relations", "session_messages", "idempotency_keys"):
            await trial.expect(who, "nothing", f"{name} of a memory read {table}", count_rows, table)
        for column in ACCESS:
            problem = f"{name} of a memory changed its {column}"
            await trial.expect(who, "nothing", problem, overwrite_rows, "memories", column)
        problem = f"{name} of a memory changed who may read and write it"
        lists = {"id": shared, "readers": [], "writers": ["*"]}
        await trial.expect(who, "nothing", problem, change_access, **lists)
        problem = f"{name} of one memory may write another"
        await trial.expect(who, "nothing", problem, is_writable, id=hidden)
    for table in PROBED:
        await trial.expect(reader, "nothing", f"a reader wrote {table}", overwrite_rows, table)
        await trial.expect(reader, "nothing", f"a reader deleted of {table}", delete_rows, table)


async def _try_inserts(trial: _Trial, there: dict[str, Any]) -> None:
    """Add something in the name of somebody else, to what is somebody else's, or to what is the backend's."""
    from .._sql.probing import OF_BACKEND, OF_NAMESPACE, PROBED, TOLD, insert_in_place_of, insert_row

    hidden, shared = there["hidden"], there["shared"]
    row = {
        **{name: new_id() for name in ("id", "key", "word", "name", "content", "session_id")},
        "space": trial.context.namespace,
        "seq": there["seq"],
        "owner": _OWNER,
        "memory_id": hidden,
        "source_id": hidden,
        "target_id": shared,
    }
    for table in (*PROBED, *OF_NAMESPACE, *OF_BACKEND):
        for name, who in (("a principal", _STRANGER), ("a writer of another memory", _WRITER)):
            problem = f"{name} added to {table} for somebody else"
            of_memory = {"id": hidden} if table == "memory_access" else {}
            await trial.expect(trial.as_(who), "refused", problem, insert_row, table, **row | of_memory)
    elsewhere = trial.as_(_STRANGER, "another namespace")
    for table in TOLD:
        problem = f"a principal of another namespace added to {table}"
        await trial.expect(elsewhere, "refused", problem, insert_row, table, **row)
    problem = "a writer related a memory to one that it may not read"
    ends = {"source_id": shared, "target_id": hidden}
    await trial.expect(trial.as_(_WRITER), "refused", problem, insert_row, "memory_relations", **row | ends)
    for name in (_STRANGER, _READER):
        instead = row | {"owner": name, "supersedes": hidden if name == _STRANGER else shared}
        problem = "a principal replaced a memory that it may not write"
        await trial.expect(trial.as_(name), "refused", problem, insert_in_place_of, **instead)


async def _try_login(context: Context, login: Context) -> list[str]:
    """Look at a login that is to run untrusted SQL: policies must bind it, to its own name."""
    from .._sql.probing import who_asks

    async with _forging(login) as (inside, name):
        ((asking,),) = await inside.fetch(who_asks, {})
    problems = await _powers(context, name)
    if asking != name and not problems:
        problems.append(f"the login {name!r} passes for the principal {asking!r}")
    return problems


@asynccontextmanager
async def _forging(login: Context) -> AsyncIterator[tuple[Context, str]]:
    """Give a transaction in which the login says that it is another principal, and the name it really has."""
    settings = f"SET LOCAL {PRINCIPAL_SETTING} = 'another'; SET LOCAL {NAMESPACE_SETTING} = 'default'"
    async with login.database.transaction(settings=LocalSettings(settings, RESTORING)) as connection:
        with translated():
            name = await connection.fetchval("SELECT session_user::text")
        yield replace(login, connection=connection), name
