"""Calls of the schema's own functions, and of pgvector's, qualified, as no search_path is relied on."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, ColumnElement, Float, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from .names import qualified
from .schema import Tables


class _Call(FunctionElement[Any]):
    """A call by a qualified name. SQLAlchemy's own would not quote every schema, and trips over a % in one."""

    inherit_cache = False

    def __init__(
        self, tables: Tables, name: str, kind: TypeEngine[Any], *arguments: ColumnElement[Any]
    ) -> None:
        super().__init__(*arguments)
        self.qualified = qualified(tables.schema, name)
        self.type = kind


@compiles(_Call)
def _compile(call: _Call, compiler: SQLCompiler, **options: Any) -> str:
    return f"{call.qualified}({compiler.process(call.clauses, **options)})"


def of_pgvector(
    tables: Tables, name: str, kind: TypeEngine[Any], *arguments: ColumnElement[Any]
) -> ColumnElement[Any]:
    """Return a call of a function of pgvector's."""
    call = _Call(tables, name, kind, *arguments)
    call.qualified = qualified(tables.extension_schema, name)
    return call


def similarity(tables: Tables, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[float]:
    """Return a call of pg_trgm's: the share of the trigrams of two texts that both have."""
    call = _Call(tables, "similarity", Float(), one, other)
    call.qualified = qualified(tables.trigram_schema or "", "similarity")
    return call


def thread_place(tables: Tables, thread: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the number that the places of a thread are counted from."""
    return _Call(tables, "thread_place", BigInteger(), thread)


def principal(tables: Tables) -> ColumnElement[str]:
    """Return who is asking, null if nobody is."""
    return _Call(tables, "principal", Text())


def may_write(tables: Tables, namespace: ColumnElement[Any], id_: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether the principal may write a memory."""
    return _Call(tables, "may_write", Boolean(), namespace, id_)


def set_access(
    tables: Tables,
    namespace: ColumnElement[Any],
    id_: ColumnElement[Any],
    readers: ColumnElement[Any],
    writers: ColumnElement[Any],
) -> ColumnElement[bool]:
    """Give a memory of the principal's own other readers and writers; return whether it is one."""
    return _Call(tables, "set_access", Boolean(), namespace, id_, readers, writers)


def refuse_without_events(tables: Tables) -> ColumnElement[str]:
    """Return a call that fails, of a statement that writes no events where there is a change feed."""
    return _Call(tables, "refuse_without_events", Text())


def lexical_terms(
    tables: Tables,
    namespace: ColumnElement[Any],
    language: ColumnElement[Any],
    content: ColumnElement[Any],
    created_at: ColumnElement[Any],
) -> ColumnElement[list[str]]:
    """Return the terms of a content, those of its date last."""
    return _Call(tables, "lexical_terms", ARRAY(Text()), namespace, language, content, created_at)
