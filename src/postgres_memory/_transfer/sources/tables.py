"""Reading a table of another system: one read-only snapshot, by a cursor on the server, in bounded memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg

from ..._driver_errors import translated
from ..._sql.compile import compile_statement
from ...errors import InvalidValueError
from .found import Found

if TYPE_CHECKING:
    from ..._pooling import Connection
    from ..._sql.compile import BuiltStatement

#: Rows that the cursor gives at a time.
_ROWS = 100


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of table: what it is called if nobody says, how it is read, and what a row of it is."""

    kind: str
    usual_name: str
    rows: Callable[[str, str, Mapping[str, str]], BuiltStatement]
    item_of: Callable[..., Found]
    prefix: str


async def read_table(
    connecting: AbstractAsyncContextManager[Connection],
    table: Table,
    place: tuple[str, str],
    only: Mapping[str, str],
    **options: Any,
) -> AsyncIterator[Found]:
    """Yield what each row is. ``place`` is schema and name; ``only`` are the values of columns that rows must have.

    Raises InvalidValueError where the table is not there or is another one, and a DatabaseError.
    """
    statement = compile_statement(f"{table.kind}_rows", table.rows(*place, only))
    arguments = [only[name.removeprefix("only_")] for name in statement.parameters]
    async with connecting as connection:
        with translated(), _Explained(table, place):
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                async for row in connection.cursor(statement.sql, *arguments, prefetch=_ROWS):
                    yield table.item_of(row, **options)


class _Explained:
    """Say of a table that is not there, or has other columns, what is wrong with what the caller named."""

    def __init__(self, table: Table, place: tuple[str, str]) -> None:
        self._kind = table.kind
        self._shown = ".".join(place)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
            raise InvalidValueError("table", f"there is no table {self._shown} in that database") from error
        if isinstance(error, asyncpg.UndefinedColumnError):
            raise InvalidValueError("table", f"{self._shown} is no table of {self._kind}: {error}") from error
