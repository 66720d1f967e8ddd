"""Draw the tables in docs/reference/schema.md, as a Mermaid diagram of those that _sql/schema.py defines.

Writes between the page's marks: python scripts/draw_schema.py
"""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Column, ForeignKeyConstraint, Table, UniqueConstraint

from postgres_memory._sql.schema import tables

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "schema.md"

#: Of SQLAlchemy's types, those that PostgreSQL calls otherwise. Arrays are of text, here.
_TYPES = {
    "ARRAY": "text_array",
    "BigInteger": "bigint",
    "DateTime": "timestamptz",
    "Double": "float8",
    "LargeBinary": "bytea",
    "QualifiedVector": "vector",
}

_BETWEEN = re.compile(r"(?<=```mermaid\n).*?(?=```\n)", re.DOTALL)


def diagram() -> str:
    """Return the tables with their columns and keys, and which foreign key leads where."""
    drawn = sorted(tables("memory", "public").metadata.tables.values(), key=lambda table: table.name)
    edges = [edge for table in drawn for edge in _edges(table)]
    entities = [line for table in drawn for line in _entity(table)]
    return "".join(f"{line}\n" for line in ["erDiagram", *(f"    {line}" for line in [*edges, *entities])])


def _edges(table: Table) -> list[str]:
    found = []
    for constraint in table.foreign_key_constraints:
        named = [name for name in constraint.column_keys if name != "namespace"]
        found.append(
            f'{constraint.referred_table.name} {_ends(table, constraint)} {table.name} : "{", ".join(named)}"'
        )
    return sorted(found)


def _ends(table: Table, constraint: ForeignKeyConstraint) -> str:
    """Return how many there are at either end, as Mermaid writes it."""
    columns = set(constraint.column_keys)
    optional = any(table.c[name].nullable for name in columns)
    keys = [set(table.primary_key.columns.keys())]
    keys += [set(one.columns.keys()) for one in table.constraints if isinstance(one, UniqueConstraint)]
    return f"{'|o' if optional else '||'}--{'o|' if columns in keys else 'o{'}"


def _entity(table: Table) -> list[str]:
    columns = [f"    {_type(column)} {column.name}{_keys(table, column)}" for column in table.columns]
    return [f"{table.name} {{", *columns, "}"]


def _type(column: Column[object]) -> str:
    """Return the type as one word, which is all that Mermaid takes."""
    name = type(column.type).__name__
    return _TYPES.get(name, name.lower())


def _keys(table: Table, column: Column[object]) -> str:
    keys = ["PK"] if column.primary_key else []
    keys += ["FK"] if any(column.name in one.column_keys for one in table.foreign_key_constraints) else []
    unique = [one for one in table.constraints if isinstance(one, UniqueConstraint)]
    keys += ["UK"] if any(column.name in one.columns for one in unique) else []
    optional = ' "may be null"' if column.nullable else ""
    return f"{' ' * bool(keys)}{', '.join(keys)}{optional}"


def drawn_in(page: str) -> str:
    """Return the page with the diagram of the tables as they are."""
    return _BETWEEN.sub(lambda _: diagram(), page, count=1)


if __name__ == "__main__":
    PAGE.write_text(drawn_in(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
