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
from ..records import MemoryRelation, MemoryRelationType

if TYPE_CHECKING:
    from .._sql.compile import StatementBuilder

_NO_RIGHT = "42501"
_OWNER, _STRANGER = "postgres-memory owner", "postgres-memory stranger"


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
        self, who: Context, expected: str, problem: str, builder: StatementBuilder, *shape: str
    ) -> None:
        """Try a statement: it must find ``nothing``, find ``something``, or be ``refused``."""
        self.attempts += 1
        parameters = {"namespace": self.context.namespace, "id": new_id(), "owner": _OWNER}
        try:
            async with who.transaction() as inside:
                rows = await inside.fetch(builder, parameters, *shape)
        except DatabaseError as error:
            if error.sqlstate != _NO_RIGHT:
                raise
            found = "refused"
        else:
            found = "something" if rows and rows[0][0] else "nothing"
        if found != expected and (found, expected) != ("refused", "nothing"):
            self.problems.append(f"{problem} ({expected} was to be expected, and it found {found})")


async def check_isolation(context: Context, role: str, login: Context | None) -> Isolation:
    """Look at the role and the tables, then try; with a ``login`` for untrusted SQL, look at that one as well."""
    facts = await _facts(context, role)
    problems, warnings = _problems(facts, role), _warnings(facts)
    trial = _Trial(replace(context, namespace=f"isolation {new_id()}", embedder=None, toucher=None), role)
    if facts["there"]:
        await _try(trial)
    if login is not None:
        trial.attempts += 1
        problems += await _try_login(login)
    problems += trial.problems
    return Isolation(not problems, tuple(problems), tuple(warnings), trial.attempts, role, facts["login"])


async def _facts(context: Context, role: str) -> dict[str, Any]:
    from .._sql.probing import ROLE_FACTS

    schema = (await context.database.opened()).tables.schema
    async with context.database.transaction() as connection:
        with translated():
            (row,) = await connection.fetch(ROLE_FACTS, schema, role)
    return dict(row)


def _problems(facts: dict[str, Any], role: str) -> list[str]:
    found = [f"row-level security is not enabled on {name}" for name in facts["unprotected"]]
    if not facts["there"]:
        found.append(f"the server has no role {role!r} for principals to act as; migrate again")
    if facts["is_superuser"] or facts["bypasses"]:
        found.append(f"the role {role!r} is a superuser or has BYPASSRLS, so that no policy binds it")
    if facts["acts_as_owner"]:
        found.append(f"the role {role!r} is a member of {facts['owner']!r}, the owner of the tables")
    return found


def _warnings(facts: dict[str, Any]) -> list[str]:
    if not facts["superuser"]:
        return []
    return [f"the login {facts['login']!r} is a superuser; the trusted backend needs no more than the tables"]


async def _try(trial: _Trial) -> None:
    try:
        async with trial.context.transaction() as inside:
            trial.context = inside
            await _prepare(trial)
            await _try_all(trial)
            raise _Undone
    except _Undone:
        pass
    except ConfigurationError as error:
        trial.problems.append(str(error))
    except DatabaseError as error:
        if error.sqlstate != _NO_RIGHT:
            raise
        trial.problems.append(f"a principal may not do what it must: {error}")


async def _prepare(trial: _Trial) -> None:
    """Store, as the owner and where need be as the trusted backend, a row in each table."""
    from .._sql.probing import prepare_access, prepare_vector
    from .._sql.sessions import add_messages

    owner, trusted = trial.as_(_OWNER), trial.context
    first = addition_of(owner, "one", {})
    await add(owner, first, await prepare(owner, first))
    related = [MemoryRelation(first.record.id, MemoryRelationType.RELATED)]
    second = addition_of(owner, "two", {"relations": related})
    prepared = await prepare(owner, second)
    await once(owner, second, "key", lambda inside: add(inside, second, prepared))
    key = {"namespace": trusted.namespace, "session_id": "session", "messages": ["{}"], "owner": _OWNER}
    await owner.once(add_messages, key)
    await trusted.fetch(prepare_vector, key)
    await trusted.fetch(prepare_access, key)


async def _try_all(trial: _Trial) -> None:
    from .._sql import probing

    owner, stranger = trial.as_(_OWNER), trial.as_(_STRANGER)
    nobody, elsewhere = trial.as_(""), trial.as_(_OWNER, "another namespace")
    for table in probing.PROBED:
        others = (
            (stranger, "a principal"),
            (nobody, "nobody"),
            (elsewhere, "a principal of another namespace"),
        )
        for who, name in others:
            await trial.expect(who, "nothing", f"{name} read rows of {table}", probing.count_rows, table)
        await trial.expect(owner, "something", f"the owner read {table}", probing.count_rows, table)
        await trial.expect(stranger, "nothing", f"a principal wrote {table}", probing.overwrite_rows, table)
        await trial.expect(stranger, "nothing", f"a principal deleted of {table}", probing.delete_rows, table)
    await trial.expect(
        stranger, "refused", "a principal stored a memory in another's name", probing.insert_for_another
    )


async def _try_login(login: Context) -> list[str]:
    """Look at a login that is to run untrusted SQL: policies must bind it, to its own name."""
    from .._sql.probing import who_asks

    catalog = await login.database.opened()
    async with _forging(login) as (inside, facts):
        name = facts["login"]
        if facts["superuser"] or facts["bypasses"]:
            return [f"the login {name!r} is a superuser or has BYPASSRLS, so that no policy binds it"]
        if not catalog.bound:
            return [
                f"the login {name!r} has the rights of the owner of the tables, so that no policy binds it"
            ]
        ((asking,),) = await inside.fetch(who_asks, {})
        return [] if asking == name else [f"the login {name!r} passes for the principal {asking!r}"]


@asynccontextmanager
async def _forging(login: Context) -> AsyncIterator[tuple[Context, dict[str, Any]]]:
    """Give a transaction in which the login says that it is another principal."""
    from .._sql.probing import LOGIN_FACTS

    settings = f"SET LOCAL {PRINCIPAL_SETTING} = 'another'; SET LOCAL {NAMESPACE_SETTING} = 'default'"
    async with login.database.transaction(settings=LocalSettings(settings, RESTORING)) as connection:
        with translated():
            (row,) = await connection.fetch(LOGIN_FACTS)
        yield replace(login, connection=connection), dict(row)
