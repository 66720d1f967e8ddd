"""From a SQLAlchemy Core statement to what asyncpg runs: text with ``$n`` and the names of the parameters.

Every parameter and every result column has a type that PostgreSQL itself brings (text, bigint, real[], …), and
vectors and JSON are cast in the statement. So no connection needs a codec of ours, a borrowed connection with
codecs of its own works as well, and it does not matter which schema the vector extension lives in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Select, UpdateBase
from sqlalchemy.dialects import registry
from sqlalchemy.sql.compiler import SQLCompiler

from .schema import tables

_DIALECT: Dialect = registry.load("postgresql.asyncpg")()

BuiltStatement = Select[Any] | UpdateBase

#: A statement is a pure function of the tables, and of a hashable shape where it has several; the function's name
#: names the statement in spans and plans.
StatementBuilder = Callable[..., BuiltStatement]


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement: its ``name``, its ``sql`` with ``$1 …``, and which ``parameters`` they stand for."""

    name: str
    sql: str
    parameters: tuple[str, ...]


#: How many statements are kept. Shapes may come from filters of the caller's, of which there is no end.
_MOST_STATEMENTS = 512


class Catalog:
    """The statements of one schema, each compiled once per builder and shape; those used last are kept."""

    def __init__(self, schema: str, extension_schema: str) -> None:
        self.tables = tables(schema, extension_schema)
        # Threads may share a catalog: this cache, unlike one by hand, is safe for that.
        self.statement = lru_cache(maxsize=_MOST_STATEMENTS)(self._statement)

    def _statement(self, builder: StatementBuilder, *shape: Hashable) -> Statement:
        """Return the compiled form of what ``builder`` builds for ``shape``."""
        return compile_statement(builder.__name__, builder(self.tables, *shape))


@lru_cache(maxsize=64)
def catalog(schema: str, extension_schema: str) -> Catalog:
    """Return the catalog of a schema: one for all objects of the process, so that each statement is compiled once."""
    return Catalog(schema, extension_schema)


def compile_statement(name: str, executable: BuiltStatement) -> Statement:
    """Return ``executable`` as asyncpg runs it. Parameters are those named by ``bindparam``."""
    compiled = executable.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    if not isinstance(compiled, SQLCompiler):
        raise TypeError(f"{name} is not a statement with parameters")
    return Statement(name, str(compiled), tuple(compiled.positiontup or ()))
