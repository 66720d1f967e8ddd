"""The revisions as files: one line of them, numbered, each operation one statement."""

from __future__ import annotations

import re
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import Script, ScriptDirectory

from postgres_memory._sql.schema_version import REVISION
from postgres_memory.migrations import alembic_config

SCRIPTS = list(ScriptDirectory.from_config(alembic_config()).walk_revisions())[::-1]

#: What may hold a semicolon that ends no statement: strings, names, dollar quotes, comments.
QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | (\$\w*\$).*?\1 | --[^\n]* | /\*.*?\*/""", re.DOTALL | re.VERBOSE
)


class Statements:
    """A buffer for Alembic's SQL that keeps what each operation wrote."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)

    def flush(self) -> None:
        """Nothing is held back."""


def statements_of(script: Script, direction: str) -> list[str]:
    buffer = Statements()
    options: dict[str, Any] = {
        "as_sql": True,
        "output_buffer": buffer,
        "schema": 'a;b"c',
        "extension_schema": "x:y;z",
    }
    migration = MigrationContext.configure(
        dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, opts=options
    )
    with Operations.context(migration):
        getattr(script.module, direction)()
    return buffer.written


def parts(sql: str) -> list[str]:
    """Return the statements of ``sql``, quoted things aside."""
    return [part for part in QUOTED.sub("''", sql).split(";") if part.strip()]


def test_there_is_one_head_and_the_code_needs_it() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [REVISION]


def test_revisions_are_numbered_and_follow_each_other() -> None:
    numbers = [script.revision for script in SCRIPTS]
    assert numbers == [f"{number:04}" for number in range(1, len(SCRIPTS) + 1)]
    assert [script.down_revision for script in SCRIPTS] == [None, *numbers[:-1]]
    assert not any(script.branch_labels or script.dependencies for script in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.revision for script in SCRIPTS])
class TestRevision:
    def test_the_file_and_its_text_name_the_revision(self, script: Script) -> None:
        assert re.fullmatch(rf"{script.revision}_[a-z_]+\.py", script.path.rpartition("/")[2])
        previous = f", after {script.down_revision}" if script.down_revision else ""
        assert f"Revision {script.revision}{previous}." in script.longdoc

    @pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
    def test_each_operation_is_one_statement(self, script: Script, direction: str) -> None:
        statements = statements_of(script, direction)
        assert statements
        for statement in statements:
            assert len(parts(statement)) == 1, statement

    @pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
    def test_names_reach_the_sql_as_they_are(self, script: Script, direction: str) -> None:
        sql = "".join(statements_of(script, direction))
        assert '"a;b""c".' in sql
        assert "\\:" not in sql
        assert "@schema@" not in sql
        assert "@extension@" not in sql
        if '"x' in sql:
            assert '"x:y;z".' in sql


def test_a_statement_too_many_is_noticed() -> None:
    assert len(parts("CREATE TABLE a (b text DEFAULT ';'); DROP TABLE a;")) == 2
    assert len(parts("CREATE FUNCTION f() AS $b$ BEGIN; END; $b$ -- ; and more\n;")) == 1
