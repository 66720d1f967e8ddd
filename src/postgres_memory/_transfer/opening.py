"""From the kind of a source, and where it is, to what it holds, one thing at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from .._context import Context
from .._driver_errors import DRIVER_ERRORS, translated
from .._route import connect
from .._validation import check_text
from ..config import parse_dsn
from ..errors import ConfigurationError, InvalidTypeError, InvalidValueError
from ..ids import now

if TYPE_CHECKING:
    from .._pooling import Connection
    from .sources.found import Found
    from .sources.tables import Table

SourceKind = Literal["mem0", "langgraph", "pgmemory", "mcp-json", "chatgpt-export"]

_OF_TABLES = ("mem0", "langgraph", "pgmemory")

#: Things that a file gives at a time, read beside the event loop.
_STEP = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller said of a source, beside its kind and its place; None and nothing mean: as usual."""

    table: str | None = None
    source_schema: str = "public"
    only: Mapping[str, str] = field(default_factory=dict)
    content_field: str | None = None
    id_prefix: str | None = None


def opened(
    context: Context, kind: SourceKind, source: str | os.PathLike[str] | None, asked: Asked
) -> AsyncIterator[Found]:
    """Return what is in a source. Raises InvalidTypeError or InvalidValueError for what does not go with its kind."""
    if kind not in get_args(SourceKind):
        raise InvalidValueError("kind", f"must be one of {', '.join(get_args(SourceKind))}")
    if asked.content_field is not None and kind != "langgraph":
        raise InvalidValueError("content_field", "is for langgraph: the others have one place for the text")
    if kind in _OF_TABLES:
        return _table(context, kind, source, asked)
    if asked.table is not None or asked.only:
        raise InvalidValueError(
            "table" if asked.table is not None else "only", "is for sources that are tables"
        )
    if source is None:
        raise InvalidValueError("source", f"must be a path for {kind}")
    path = Path(source)
    if kind == "mcp-json":
        from .sources.mcp_json import read_graph

        if asked.id_prefix is not None:
            raise InvalidValueError(
                "id_prefix", "is not for mcp-json: the ids are those of the knowledge graph"
            )
        return _beside(read_graph(path, now()))
    from .sources.chatgpt import PREFIX, read_chatgpt

    return _beside(read_chatgpt(path, PREFIX if asked.id_prefix is None else asked.id_prefix))


def _table(
    context: Context, kind: str, source: str | os.PathLike[str] | None, asked: Asked
) -> AsyncIterator[Found]:
    if source is not None and not isinstance(source, str):
        raise InvalidTypeError("source", f"must be the DSN of a database for {kind}, or None for this one")
    from .sources.tables import read_table

    table = _kind_of_table(kind)
    place = (
        check_text(asked.source_schema, "source_schema"),
        check_text(asked.table or table.usual_name, "table"),
    )
    prefix = table.prefix.format(table=place[1]) if asked.id_prefix is None else asked.id_prefix
    options = {"prefix": prefix}
    if asked.content_field is not None:
        options["content_field"] = asked.content_field
    return read_table(_connected(context, source), table, place, asked.only, **options)


def _kind_of_table(kind: str) -> Table:
    """Return it; imported here, since what builds statements takes long to import."""
    from .sources.langgraph import LANGGRAPH
    from .sources.mem0 import MEM0
    from .sources.pgmemory import PGMEMORY

    return {table.kind: table for table in (MEM0, LANGGRAPH, PGMEMORY)}[kind]


def _connected(context: Context, source: str | None) -> AbstractAsyncContextManager[Connection]:
    return context.database.acquired("reading a source") if source is None else _elsewhere(source)


@asynccontextmanager
async def _elsewhere(source: str) -> AsyncIterator[Connection]:
    dsn = parse_dsn(source, "source")
    with translated():
        try:
            connection = await connect(dsn)
        except ValueError as error:
            raise ConfigurationError(f"source: {dsn} is not a DSN that can be read") from error
    try:
        yield connection
    finally:
        with suppress(*DRIVER_ERRORS):
            await connection.close()


async def _beside(found: Iterator[Found]) -> AsyncIterator[Found]:
    while step := await asyncio.to_thread(lambda: list(islice(found, _STEP))):
        for one in step:
            yield one
