"""The public surface: what `__all__` says, and nothing that loads more than it must."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import postgres_memory

#: Slow or optional: none of them may be loaded by importing the package or naming its main class.
HEAVY = ("alembic", "anyio", "flux", "numpy", "rich", "sqlalchemy", "typer")


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after ``statement``."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def names_for_type_checkers() -> set[str]:
    """Return the names that the package's file imports under TYPE_CHECKING."""
    tree = ast.parse(Path(postgres_memory.__file__).read_text())
    return {
        alias.asname or alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_all_is_sorted_and_free_of_duplicates() -> None:
    assert postgres_memory.__all__ == sorted(set(postgres_memory.__all__))


@pytest.mark.parametrize("name", postgres_memory.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(postgres_memory, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    assert names_for_type_checkers() | {"__version__"} == set(postgres_memory.__all__)


def test_nothing_else_is_public() -> None:
    program = (
        "import postgres_memory as p, types\n"
        "print(*(n for n, v in vars(p).items() if not n.startswith('_') and not isinstance(v, types.ModuleType)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # What the file needs for itself, and cannot do without under these names.
    assert set(done.stdout.split()) <= {"annotations", "import_module", "TYPE_CHECKING"}
    assert dir(postgres_memory) == postgres_memory.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Postgresmemory'"):
        _ = postgres_memory.Postgresmemory


@pytest.mark.parametrize(
    "statement", ["import postgres_memory", "from postgres_memory import PostgresMemory"]
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert modules_after(statement).isdisjoint(HEAVY)


def test_importing_the_package_loads_no_driver() -> None:
    assert "asyncpg" not in modules_after("import postgres_memory")


def test_the_command_line_loads_no_database_for_its_help() -> None:
    assert modules_after("import postgres_memory.cli.main").isdisjoint({"asyncpg", "sqlalchemy", "alembic"})


def test_what_stores_and_searches_loads_none_of_the_other_verbs() -> None:
    program = (
        "from postgres_memory import PostgresMemory\nimport sys\n"
        "print(*(name.removeprefix('postgres_memory.') for name in sys.modules if name.startswith('postgres_memory.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"_recall.search", "_writing.store"} <= loaded
    rare = (
        "_doctor",
        "_graph",
        "_recall.recall",
        "_transfer",
        "_writing.adding",
        "filters",
        "records",
        "migrations",
    )
    assert sorted(name for name in loaded if name.startswith(rare)) == []
