"""The stub of the synchronous classes says what the classes are, and a type checker believes it."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from postgres_memory import PostgresMemory, sync
from postgres_memory.postgres import MemoryTransaction, MemoryWithin, PrincipalMemory
from postgres_memory.session import PostgresSession

TOP = Path(__file__).parent.parent.parent
STUB = TOP / "src" / "postgres_memory" / "sync.pyi"

CLASSES = (
    (sync.SyncMemoryTransaction, MemoryTransaction),
    (sync.SyncMemoryWithin, MemoryWithin),
    (sync.SyncPostgresMemory, PostgresMemory),
    (sync.SyncPostgresSession, PostgresSession),
    (sync.SyncPrincipalMemory, PrincipalMemory),
)

RIGHT = """
from typing import assert_type
from postgres_memory.protocol import MemoryEntry
from postgres_memory.records import MemoryRecord
from postgres_memory.sync import SyncMemoryTransaction, SyncPostgresMemory, SyncPostgresSession

def use(memory: SyncPostgresMemory, session: SyncPostgresSession) -> None:
    assert_type(memory.search("x", limit=3), list[MemoryEntry])
    assert_type(memory.add("x", tags=["a"], importance=0.1), MemoryRecord)
    assert_type(memory.namespace, str)
    memory.add_many(content for content in ("a", "b"))
    with SyncPostgresMemory("postgresql://x/y", namespace="n") as opened, opened.transaction() as tx:
        assert_type(opened, SyncPostgresMemory)
        assert_type(tx, SyncMemoryTransaction)
        assert_type(tx.get("id"), MemoryRecord)
    assert_type(session.session_id, str)
"""

#: Each is refused, with this error.
WRONG = {
    'await_it = memory.search("x").__await__()': "attr-defined",
    'memory.search("x", limits=3)': "call-arg",
    'memory.add("x", tag=["a"])': "call-arg",
    'memory.add("x", importance="much")': "arg-type",
    'memory.store("x", connection=None)': "call-arg",
    "with memory as m: m.nothing()": "attr-defined",
    "with memory.transaction() as tx: tx.close()": "attr-defined",
    "memory.sync": "attr-defined",
    "async def f() -> None:\n        async with memory: pass": "attr-defined",
}


def script() -> ModuleType:
    spec = spec_from_file_location("make_sync_stub", TOP / "scripts" / "make_sync_stub.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tree(text: str) -> str:
    """Return what ``text`` says, whatever its formatting and the order of its imports."""
    body = ast.parse(text).body
    imports = {
        f"{node.level}{node.module}.{alias.name}"
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    rest = [ast.dump(node) for node in body if not isinstance(node, ast.ImportFrom)]
    return "\n".join([*sorted(imports), *rest])


def stub_members(name: str) -> dict[str, ast.FunctionDef]:
    classes = {node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)}

    def members(class_: ast.ClassDef) -> dict[str, ast.FunctionDef]:
        found: dict[str, ast.FunctionDef] = {}
        for base in class_.bases:
            found |= members(classes[ast.unparse(base)])
        return found | {node.name: node for node in class_.body if isinstance(node, ast.FunctionDef)}

    return members(classes[name])


def test_the_stub_is_what_the_script_writes() -> None:
    assert tree(STUB.read_text()) == tree(script().make_stub()), "run: python scripts/make_sync_stub.py"


@pytest.mark.parametrize(("made", "source"), CLASSES)
def test_the_stub_names_every_member_with_its_parameters(made: type, source: type) -> None:
    members = stub_members(made.__name__)
    public = {name for name in dir(made) if not name.startswith("_")}
    assert public == {name for name in members if not name.startswith("_")}
    assert public >= {name for name in dir(source) if not name.startswith("_")} - {"sync"}
    for name in public:
        member = inspect.getattr_static(made, name)
        if not isinstance(member, property):
            given = members[name].args
            named = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            named += [one.arg for one in (given.vararg, given.kwarg) if one]
            assert sorted(named) == sorted(inspect.signature(member).parameters), name


def test_a_change_of_the_source_changes_the_stub() -> None:
    module = script()
    source = ast.parse(
        "async def f(a: Iterable[int] | AsyncIterable[int] | None = None, *, b=timedelta(1), connection=None)"
        " -> PostgresMemory:\n    'doc'\n    return g()"
    ).body[0]
    assert ast.unparse(module.declaration(source)) == (
        "def f(a: Iterable[int] | None=None, *, b=...) -> SyncPostgresMemory:\n    ..."
    )
    with pytest.raises(module.StubError, match="cached"):
        module.declaration(ast.parse("@cached\nasync def f(): ...").body[0])


def test_a_type_checker_takes_right_code_and_refuses_wrong_code(tmp_path: Path) -> None:
    wrong = [
        "from postgres_memory.sync import SyncPostgresMemory",
        "def use(memory: SyncPostgresMemory) -> None:",
    ]
    wrong += [f"    {line}" for line in WRONG]
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text("\n".join(wrong) + "\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(TOP / ".mypy_cache"),
            "right.py",
            "wrong.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(STUB.parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert not [line for line in errors if not line.startswith("wrong.py:")], done.stdout
    codes: dict[int, str] = {}
    for line in errors:
        codes.setdefault(int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]"))
    lines: dict[str, int] = {}
    number = 3
    for line in WRONG:
        lines[line] = number + line.count("\n")
        number += 1 + line.count("\n")
    assert {line: codes.get(lines[line]) for line in WRONG} == WRONG, done.stdout
