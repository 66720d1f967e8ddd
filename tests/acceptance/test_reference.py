"""The reference says what the code does: the tables of errors, the drawing of the schema, the public names."""

from __future__ import annotations

import ast
import inspect
import re
import ssl
from pathlib import Path

import asyncpg
import pytest
from scripts.draw_schema import drawn_in

import postgres_memory
from postgres_memory import _driver_errors, _retrying, errors
from postgres_memory._driver_errors import translate
from postgres_memory._retrying import passes
from postgres_memory._sql.schema import tables
from postgres_memory._sql.schema_version import REVISION
from postgres_memory.errors import DatabaseError, NotMigratedError, PostgresMemoryError

REFERENCE = Path(__file__).parent.parent.parent / "docs" / "reference"
ERRORS = (REFERENCE / "errors.md").read_text()
SCHEMA = (REFERENCE / "schema.md").read_text()

SQLSTATE = re.compile(r"\b(?:[0-9A-Z]{5}\b|08(?=…))")


def rows(page: str, beginning: str) -> list[list[str]]:
    """Return the cells of the table whose first column is called ``beginning``."""
    table = page.partition(f"\n| {beginning} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


BY_SQLSTATE = rows(ERRORS, "SQLSTATE")
BY_CLASS = {row[0].strip("·` "): row for row in rows(ERRORS, "error")}
BY_DRIVER = rows(ERRORS, "what the driver meets")

FROM_THE_DRIVER: dict[str, Exception] = {
    "TimeoutError": TimeoutError(),
    "ConnectionRefusedError": ConnectionRefusedError(),
    "ConnectionResetError": ConnectionResetError(),
    "SSLCertVerificationError": ssl.SSLCertVerificationError(),
}


def codes_in(module: object) -> set[str]:
    """Return the SQLSTATEs, and the class of them, that the source of a module names."""
    assert inspect.ismodule(module)
    constants = [
        node.value
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant)
    ]
    return {one for one in constants if isinstance(one, str) and re.fullmatch(r"[0-9A-Z]{5}|\d\d", one)}


def of_the_server(sqlstate: str) -> Exception:
    """Return what the driver makes of an answer of the server."""
    return asyncpg.PostgresError.new({"S": "ERROR", "C": sqlstate, "M": "refused"})


def said(error: PostgresMemoryError) -> list[str]:
    """Return an error as the page writes it: its class, what may be written, whether it passes."""
    nothing_written = not isinstance(error, DatabaseError) or error.nothing_written
    return [
        f"`{type(error).__name__}`",
        "no" if nothing_written else "perhaps",
        "yes" if passes(error) else "no",
    ]


@pytest.mark.parametrize("row", BY_SQLSTATE, ids=lambda row: row[0])
def test_a_sqlstate_is_translated_as_the_page_says(row: list[str]) -> None:
    code = {"08…": "08006", "any other": "53100"}.get(row[0], row[0])
    assert said(translate(of_the_server(code))) == row[2:]


def test_the_page_has_every_sqlstate_that_is_translated_by_itself() -> None:
    named = {code for row in BY_SQLSTATE for code in SQLSTATE.findall(row[0])}
    assert named == codes_in(_driver_errors) | codes_in(_retrying)


def test_the_page_names_sqlstates_as_postgresql_does() -> None:
    known = {
        error.sqlstate: name
        for name, error in vars(asyncpg.exceptions).items()
        if getattr(error, "sqlstate", None)
    }
    for code, name, *_ in BY_SQLSTATE:
        if SQLSTATE.fullmatch(code):
            condition = name.partition(":")[0].replace("_", "")
            assert condition.startswith(known[code].removesuffix("Error").lower()), code


@pytest.mark.parametrize("row", BY_DRIVER, ids=lambda row: row[0])
def test_an_error_of_the_driver_is_translated_as_the_page_says(row: list[str]) -> None:
    (name,) = re.findall(r"^`(\w+)`", row[0])
    assert said(translate(FROM_THE_DRIVER[name])) == row[1:]


def test_every_error_is_in_the_page_in_its_place() -> None:
    everything = [one for one in vars(errors).values() if inspect.isclass(one)]
    defined = [one for one in everything if issubclass(one, PostgresMemoryError)]
    assert list(BY_CLASS) == [one.__name__ for one in defined]
    for one in defined:
        above = [other for other in one.__mro__[1:] if other in defined]
        assert BY_CLASS[one.__name__][0].count("·") == len(above), one
        for other in set(one.__bases__) - {Exception, *defined}:
            assert f"also a `{other.__name__}`" in BY_CLASS[one.__name__][1]


def test_both_tables_have_the_same_sqlstates_of_a_class() -> None:
    for one in (errors.DatabaseUnavailableError, errors.DatabaseTimeoutError, NotMigratedError):
        there = {row[0] for row in BY_SQLSTATE if row[2] == f"`{one.__name__}`"}
        assert set(BY_CLASS[one.__name__][2].split(", ")) == there


def test_the_tables_are_drawn_as_they_are() -> None:
    assert drawn_in(SCHEMA) == SCHEMA, "run scripts/draw_schema.py"


def test_the_schema_page_says_what_every_table_holds() -> None:
    defined = {table.name for table in tables("memory", "public").metadata.tables.values()}
    assert {row[0].strip("`") for row in rows(SCHEMA, "table")} == defined | {"alembic_version"}
    assert f"at revision {REVISION}." in SCHEMA


def test_every_public_name_is_in_the_page_of_them() -> None:
    page = (REFERENCE / "api.md").read_text()
    shown = {
        name.rpartition(".")[2] for name in re.findall(r"^::: (postgres_memory\.[\w.]+)$", page, re.MULTILINE)
    }
    assert "errors" in shown  # all of them
    assert set(postgres_memory.__all__) - {"__version__", "PostgresMemoryError"} <= shown
