"""From a SQLAlchemy Core statement to what asyncpg runs: text with ``$n`` and the names of the parameters.

Every parameter and every result column has a type that PostgreSQL itself brings (text, bigint, real[], …), and
vectors and JSON are cast in the statement. So no connection needs a codec of ours, a borrowed connection with
codecs of its own works as well, and it does not matter which schema the vector extension lives in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ClauseElement, Dialect, Select, UpdateBase
from sqlalchemy.dialects import registry
from sqlalchemy.sql.compiler import SQLCompiler

from .changes import is_guarded
from .feed import guard
from .limiting import limited
from .names import qualified
from .repeating import is_repeatable
from .schema import Tables, tables
from .write_tokens import claim_token

_DIALECT: Dialect = registry.load("postgresql.asyncpg")()

BuiltStatement = Select[Any] | UpdateBase

#: A statement is a pure function of the tables, and of a hashable shape where it has several; the function's name
#: names the statement in spans and plans.
StatementBuilder = Callable[..., BuiltStatement]


def _writes(executable: BuiltStatement) -> bool:
    """Say whether a statement or a part of it inserts, updates or deletes.

    Parts are shared, so that each is looked at once: SQLAlchemy's own walk comes to a part on every way there is to it.
    """
    seen: dict[int, ClauseElement] = {}
    waiting: list[ClauseElement] = [executable]
    while waiting:
        part = waiting.pop()
        if isinstance(part, UpdateBase):
            return True
        if id(part) not in seen:
            seen[id(part)] = part
            waiting.extend(part.get_children())
    return False


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement: its ``name``, its ``sql`` with ``$1 …``, and which ``parameters`` they stand for.

    ``repeatable`` if it may run again where nobody knows whether it ran: what it ``writes`` is the same twice as once.
    """

    name: str
    sql: str
    parameters: tuple[str, ...]
    repeatable: bool = False
    writes: bool = True


#: How many statements are kept. Shapes may come from filters of the caller's, of which there is no end.
_MOST_STATEMENTS = 512


class Catalog:
    """The statements of one schema, each compiled once per builder and shape; those used last are kept."""

    def __init__(
        self,
        schema: str,
        extension_schema: str,
        trigram_schema: str | None = None,
        bound: bool = False,
        *,
        walks_arrays: bool = True,
    ) -> None:
        self.tables = tables(schema, extension_schema, trigram_schema)
        self.limited = limited(self.tables, walks_arrays=walks_arrays)
        self._quiet = replace(self.tables, quiet=True)
        #: Whether policies take the login for itself, whoever it says it is: it is nobody's trusted backend.
        self.bound = bound
        # Threads may share a catalog: this cache, unlike one by hand, is safe for that.
        self.statement = lru_cache(maxsize=_MOST_STATEMENTS)(self._statement)
        self.quiet_statement = lru_cache(maxsize=_MOST_STATEMENTS)(self._quiet_statement)
        self.ranking_statement = lru_cache(maxsize=_MOST_STATEMENTS)(self._ranking_statement)
        self.principals_statement = lru_cache(maxsize=_MOST_STATEMENTS)(self._principals_statement)

    def _statement(self, builder: StatementBuilder, *shape: Hashable) -> Statement:
        """Return the compiled form of what ``builder`` builds for ``shape``."""
        return self._of(self.tables, builder, *shape)

    def _quiet_statement(self, builder: StatementBuilder, *shape: Hashable) -> Statement:
        """Return it without events, failing where there is a change feed; if it cannot fail so, with them."""
        if not is_guarded(builder):
            return self.statement(builder, *shape)
        return self._of(self._quiet, builder, *shape)

    def _of(self, tables: Tables, builder: StatementBuilder, *shape: Hashable) -> Statement:
        executable = builder(tables, *shape)
        compiled = compile_statement(builder.__name__, executable)
        writes = _writes(executable)
        return replace(compiled, writes=writes, repeatable=is_repeatable(builder) or not writes)

    @cached_property
    def claim(self) -> Statement:
        """The statement that takes a write's token and says what the write did that left it."""
        return self._statement(claim_token)

    def commit(self, namespace: str, token: str) -> str:
        """Return the SQL that leaves a token, if the transaction wrote anything, and commits: one round trip.

        It has no parameters, as those would take a round trip of their own; the namespace is spelt in hexadecimal.
        """
        return (
            f"INSERT INTO {qualified(self.tables.schema, 'write_tokens')} (namespace, token) "
            f"SELECT pg_catalog.convert_from(pg_catalog.decode('{namespace.encode().hex()}', 'hex'), 'UTF8'), "
            f"'{UUID(token)}'::pg_catalog.uuid WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL; COMMIT"
        )

    def guard(self, namespace: str) -> str:
        """Return the SQL that fails where ``namespace`` has a change feed."""
        return guard(self.tables.schema, namespace)

    def _principals_statement(self, builder: StatementBuilder, *shape: Hashable) -> Statement:
        """Return it for a principal: with a text of its own, since the server plans anew what another role runs."""
        statement = self.statement(builder, *shape)
        return replace(statement, sql=f"{statement.sql}\n-- of a principal")

    def _ranking_statement(self, builder: StatementBuilder, *shape: Hashable) -> Statement:
        """Return what ``builder`` builds over the tables as a principal may read them."""
        compiled = compile_statement(builder.__name__, builder(self.limited, *shape))
        return replace(compiled, writes=False, repeatable=True)


@lru_cache(maxsize=64)
def catalog(
    schema: str,
    extension_schema: str,
    trigram_schema: str | None = None,
    bound: bool = False,
    *,
    walks_arrays: bool = True,
) -> Catalog:
    """Return the catalog of a schema: one for all objects of the process, so that each statement is compiled once.

    Where the server ``walks_arrays``, a key is read along an array in one pass, as PostgreSQL does from version 17 on.
    """
    return Catalog(schema, extension_schema, trigram_schema, bound, walks_arrays=walks_arrays)


def compile_statement(name: str, executable: BuiltStatement) -> Statement:
    """Return ``executable`` as asyncpg runs it. Parameters are those named by ``bindparam``."""
    compiled = executable.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    if not isinstance(compiled, SQLCompiler):
        raise TypeError(f"{name} is not a statement with parameters")
    return Statement(name, str(compiled), tuple(compiled.positiontup or ()))
