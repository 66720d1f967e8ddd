"""Which indexes the schema says there are, and the statements that make one that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Dialect, Index, MetaData, PrimaryKeyConstraint, UniqueConstraint
from sqlalchemy.dialects import registry
from sqlalchemy.schema import AddConstraint, CreateIndex

from .schema import Tables

_DIALECT: Dialect = registry.load("postgresql.asyncpg")()


@dataclass(frozen=True, slots=True)
class RequiredIndex:
    """An index by name, what is compared of it, and the ``statement`` that makes it.

    One that is ``of_constraint`` is made by a statement that keeps everybody else out; the others are not.
    """

    name: str
    table: str
    is_unique: bool
    method: str
    keys: int
    partial: bool
    statement: str
    of_constraint: bool


def required_indexes(tables: Tables) -> list[RequiredIndex]:
    """Return every index that the migrations make, in the order of names."""
    return sorted(_every(tables), key=lambda one: one.name)


def _every(tables: Tables) -> Iterator[RequiredIndex]:
    for table in tables.metadata.tables.values():
        # Of a copy: a statement that adds a constraint takes it out of the one that creates its table.
        for constraint in table.to_metadata(MetaData()).constraints:
            if isinstance(constraint, PrimaryKeyConstraint | UniqueConstraint):
                yield _of_constraint(table.name, constraint)
        for index in table.indexes:
            yield _of_index(table.name, index)


def _of_constraint(table: str, constraint: PrimaryKeyConstraint | UniqueConstraint) -> RequiredIndex:
    statement = str(AddConstraint(constraint).compile(dialect=_DIALECT))
    keys = len(constraint.columns)
    return RequiredIndex(str(constraint.name), table, True, "btree", keys, False, statement, True)


def _of_index(table: str, index: Index) -> RequiredIndex:
    options = index.dialect_options["postgresql"]
    statement = str(CreateIndex(index).compile(dialect=_DIALECT))
    return RequiredIndex(
        name=str(index.name),
        table=table,
        is_unique=bool(index.unique),
        method=str(options["using"] or "btree"),
        keys=len(list(index.expressions)),
        partial=options["where"] is not None,
        statement=statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1),
        of_constraint=False,
    )
