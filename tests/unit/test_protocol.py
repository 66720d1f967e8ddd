from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flux.memory
import flux.sessions
import pytest

import postgres_memory._seed as seed
from postgres_memory import protocol
from postgres_memory.conversation import ConversationMemory
from postgres_memory.vector import VectorMemory

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).parents[2] / "src"

# How each memory class is made, by module and expression: the checks below run it here and under mypy.
MEMORIES = [
    ("postgres_memory.postgres", "PostgresMemory('postgresql://nowhere.invalid/x')"),
    ("postgres_memory.vector", "VectorMemory()"),
    ("postgres_memory.conversation", "ConversationMemory(flux.sessions.InMemorySession())"),
]


def make(module: str, expression: str) -> Any:
    return eval(expression, {**vars(importlib.import_module(module)), "flux": flux})


def python(code: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_the_names_are_fluxs_own_classes() -> None:
    assert protocol.Memory is flux.memory.Memory
    assert protocol.MemoryEntry is flux.memory.MemoryEntry
    assert protocol.entry_class() is flux.memory.MemoryEntry
    assert protocol.memory_class() is flux.memory.Memory


@pytest.mark.parametrize(("module", "expression"), MEMORIES)
def test_every_memory_is_a_memory_of_both_protocols(module: str, expression: str) -> None:
    memory = make(module, expression)
    for contract in (flux.memory.Memory, seed.Memory):
        assert isinstance(memory, contract)
        assert not isinstance(object(), contract)


@pytest.mark.parametrize(("module", "expression"), MEMORIES)
@pytest.mark.parametrize("method", ["search", "store", "clear"])
def test_every_memory_has_the_exact_signatures(module: str, expression: str, method: str) -> None:
    wanted = inspect.signature(getattr(flux.memory.Memory, method))
    function = getattr(type(make(module, expression)), method)
    found = inspect.signature(function)
    more = [name for name in found.parameters if name not in wanted.parameters]
    assert all(found.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in more)
    assert all(found.parameters[name].default is not inspect.Parameter.empty for name in more)
    assert [found.parameters[name] for name in wanted.parameters] == list(wanted.parameters.values())
    assert found.return_annotation == wanted.return_annotation
    assert inspect.iscoroutinefunction(function)


async def test_entries_equal_fluxs() -> None:
    memory = VectorMemory()
    await memory.store("text", {"a": 1})
    assert await memory.search("text") == [flux.memory.MemoryEntry("text", {"a": 1}, 1.0)]
    conversation = ConversationMemory(flux.sessions.InMemorySession())
    await conversation.store("text")
    assert await conversation.search("") == [flux.memory.MemoryEntry("text", {"role": "user"})]


@pytest.mark.parametrize("name", ["Memory", "MemoryEntry"])
def test_our_own_classes_are_identical_to_fluxs(name: str) -> None:
    ours, theirs = getattr(seed, name), getattr(flux.memory, name)
    assert ours.__name__ == theirs.__name__
    assert inspect.signature(ours) == inspect.signature(theirs)
    for method in ("search", "store", "clear"):
        if name == "Memory":
            assert inspect.signature(getattr(ours, method)) == inspect.signature(getattr(theirs, method))


def test_our_own_entry_is_mutable_and_shares_no_default() -> None:
    first, second = seed.MemoryEntry("a"), seed.MemoryEntry("a")
    assert first == second
    assert (first.metadata, first.score) == ({}, 0.0)
    first.metadata["x"] = 1
    first.score = 0.5
    assert second == seed.MemoryEntry("a", {}, 0.0) != first


def test_sessions_of_flux_are_sessions_and_have_the_same_methods() -> None:
    assert isinstance(flux.sessions.InMemorySession(), protocol.Session)
    assert not isinstance(VectorMemory(), protocol.Session)
    for method in ("get_messages", "add_messages", "clear"):
        ours, theirs = getattr(protocol.Session, method), getattr(flux.sessions.Session, method)
        assert inspect.signature(ours) == inspect.signature(theirs)
    assert isinstance(protocol.Session.session_id, property)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = getattr(protocol, "Nothing")  # noqa: B009 - a checker would refuse the plain form


def test_flux_is_imported_on_first_use_only() -> None:
    printed = python(
        "import sys, postgres_memory.protocol as p, postgres_memory.vector, postgres_memory.conversation\n"
        "print('flux' in sys.modules)\n"
        "p.Session, postgres_memory.vector.VectorMemory()\n"
        "print('flux' in sys.modules)\n"
        "print(p.MemoryEntry.__module__, p.Memory.__module__, 'flux' in sys.modules)\n"
    )
    assert printed.splitlines() == ["False", "False", "flux.memory.base flux.memory.base True"]


USE = (
    "import postgres_memory.protocol as p; from postgres_memory.vector import VectorMemory; import asyncio\n"
    "memory = VectorMemory(); asyncio.run(memory.store('abc'))\n"
    "found = asyncio.run(memory.search('abc'))\n"
    "assert found == [p.MemoryEntry('abc', {}, 1.0)] and isinstance(memory, p.Memory)\n"
    "print(p.MemoryEntry.__module__, p.Memory.__module__)\n"
)
OURS = "postgres_memory._seed postgres_memory._seed"


def test_without_flux_the_names_are_ours() -> None:
    assert python("import sys; sys.modules['flux'] = None\n" + USE) == OURS
    assert python("import sys, types; sys.modules['flux'] = types.ModuleType('flux')\n" + USE) == OURS


def package(files: dict[str, str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return write


SEED = (SOURCE / "postgres_memory" / "_seed.py").read_text(encoding="utf-8")
LIKE_FLUX = {"flux/__init__.py": "", "flux/memory/__init__.py": "", "flux/memory/base.py": SEED}


def test_what_looks_like_flux_agents_is_taken(tmp_path: Path) -> None:
    # Without this, the next test could pass because nothing under this name is ever taken.
    package(LIKE_FLUX)(tmp_path)
    printed = python(USE, PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCE}")
    assert printed == "flux.memory.base flux.memory.base"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"flux.py": "raise SystemExit('run')"}, id="a module"),
        pytest.param({"flux/__init__.py": "raise SystemExit('run')"}, id="a package"),
        pytest.param(
            {"flux/__init__.py": "raise SystemExit('run')", "flux/memory.py": ""}, id="with a memory"
        ),
        pytest.param({**LIKE_FLUX, "flux/memory/base.py": ""}, id="an empty base"),
        pytest.param({**LIKE_FLUX, "flux/__init__.py": "import missing_dependency"}, id="broken"),
        pytest.param(
            {**LIKE_FLUX, "flux/memory/base.py": SEED.replace("score: float = 0.0", "rank: float = 0.0")},
            id="other fields",
        ),
        pytest.param(
            {
                **LIKE_FLUX,
                "flux/memory/base.py": SEED.replace("    score:", "    id: str = ''\n    score:"),
            },
            id="more fields",
        ),
        pytest.param(
            {**LIKE_FLUX, "flux/memory/base.py": SEED.replace("def clear", "def wipe")}, id="other methods"
        ),
        pytest.param(
            {**LIKE_FLUX, "flux/memory/base.py": SEED.replace("@runtime_checkable\n", "")},
            id="no runtime check",
        ),
        pytest.param(
            {**LIKE_FLUX, "flux/memory/base.py": SEED.replace("@dataclass\n", "")}, id="no data class"
        ),
    ],
)
def test_another_package_called_flux_is_left_alone(tmp_path: Path, files: dict[str, str]) -> None:
    package(files)(tmp_path)
    assert python(USE, PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCE}") == OURS


MYPY_OPTIONS = [
    "--strict",
    "--config-file=",
    "--no-incremental",
    "--no-error-summary",
    "--follow-imports=silent",
]


def mypy(folder: Path, files: dict[str, str], *options: str) -> list[str]:
    package(files)(folder)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *MYPY_OPTIONS, *options, *files],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr
    return [line for line in run.stdout.splitlines() if ": error: " in line]


def test_type_checkers_take_every_memory_for_fluxs(tmp_path: Path) -> None:
    good = ["import flux.memory", "import flux.sessions", "import postgres_memory.protocol as p"]
    good += [f"from {module} import {expression.split('(')[0]}" for module, expression in MEMORIES]
    for number, (_, expression) in enumerate(MEMORIES):
        good += [f"a{number}: flux.memory.Memory = {expression}", f"b{number}: p.Memory = {expression}"]
    good += ["async def search(memory: p.Memory) -> list[flux.memory.MemoryEntry]:"]
    good += ["    return await memory.search('query', limit=3)"]
    bad = [
        "import flux.memory",
        "from postgres_memory.vector import VectorMemory",
        "class Wrong(VectorMemory):",
        "    async def other(self) -> None: ...",
        "    async def search(self, query: int) -> int: return 1",
        "memory: flux.memory.Memory = Wrong()",
        "async def search() -> list[int]: return await VectorMemory().search('query')",
    ]
    files = {"good.py": "\n".join(good) + "\n", "bad.py": "\n".join(bad) + "\n"}
    errors = mypy(tmp_path, files, "--follow-untyped-imports")
    assert [line for line in errors if line.startswith("good.py")] == []
    assert {line.split(":")[1] for line in errors if line.startswith("bad.py")} == {"5", "6", "7"}


def test_without_flux_type_checkers_see_our_classes(tmp_path: Path) -> None:
    code = [
        "from postgres_memory.protocol import Memory, MemoryEntry",
        "from postgres_memory.vector import VectorMemory",
        "memory: Memory = VectorMemory()",
        "entry = MemoryEntry('content', {}, 1.0)",
        "async def first() -> float: return (await memory.search('query'))[0].score",
        "wrong: Memory = 1",
        "MemoryEntry(1)",
        "async def second() -> None: (await memory.search('query'))[0].rank",
    ]
    errors = mypy(tmp_path, {"code.py": "\n".join(code) + "\n"}, "--no-site-packages")
    assert {line.split(":")[1] for line in errors} == {"6", "7", "8"}
