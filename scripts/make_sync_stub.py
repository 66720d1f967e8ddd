"""Write src/postgres_memory/sync.pyi, what type checkers see of the synchronous classes, from the asynchronous ones.

Run it after a verb was added or changed: ``python scripts/make_sync_stub.py``. A test regenerates the stub and
compares. The source is read, not imported: `async def` becomes `def`, AsyncIterator becomes Iterator, a class gets
the name of its synchronous form, and what belongs to a caller's event loop (a pool, ``connection``) is left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "postgres_memory"

#: Module and class of what has a synchronous form; the classes it inherits from are found from there.
SOURCES = (
    ("postgres", "MemoryTransaction"),
    ("postgres", "MemoryWithin"),
    ("postgres", "PrincipalMemory"),
    ("postgres", "PostgresMemory"),
    ("session", "PostgresSession"),
)
SYNC_NAMES = {name: f"Sync{name}" for _, name in SOURCES}

RENAMED = SYNC_NAMES | {
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "AsyncGenerator": "Generator",
    "asynccontextmanager": "contextmanager",
}
LEFT_OUT_PARAMETERS = {"connection"}
LEFT_OUT_TYPES = {"Pool"}
#: `close` and the dunders are written below; `sync` leads here.
LEFT_OUT_MEMBERS = {"close", "sync"}
DECORATORS = {"contextmanager", "property", "overload"}

HEAD = """# Written by scripts/make_sync_stub.py from the asynchronous classes. Do not edit.

"""

OWNER = """
def close(self) -> None: ...
def __enter__(self) -> Self: ...
def __exit__(
    self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None: ...
"""

FUNCTION = "def synchronous(memory: PostgresMemory) -> SyncPostgresMemory: ..."

#: What the lines above need, beside what the sources import.
OWN_IMPORTS = {
    "Self": "typing",
    "TracebackType": "types",
    "PostgresMemory": ".postgres",
    "Iterable": "collections.abc",
    "Iterator": "collections.abc",
    "Generator": "collections.abc",
    "contextmanager": "contextlib",
}
BUILTIN = {
    "bool",
    "bytes",
    "dict",
    "float",
    "int",
    "list",
    "object",
    "set",
    "str",
    "tuple",
    "type",
    "frozenset",
}


class StubError(Exception):
    """The source holds what this script does not know how to translate."""


@dataclass
class Module:
    """One source file: its classes, and where each name it uses comes from."""

    tree: ast.Module
    homes: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)


def read(name: str) -> Module:
    """Read a module by its dotted name below the package."""
    module = Module(ast.parse((PACKAGE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")))
    for node in module.tree.body:
        _note(module, name, node)
    return module


def _note(module: Module, name: str, node: ast.stmt) -> None:
    if isinstance(node, ast.If):
        for inner in node.body:
            _note(module, name, inner)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            module.homes[alias.asname or alias.name] = _home(name, node)
    elif isinstance(node, ast.ClassDef):
        module.classes[node.name] = node
        module.homes[node.name] = f".{name}"
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                module.homes[target.id] = f".{name}"


def _home(name: str, node: ast.ImportFrom) -> str:
    """Return where an import leads, as seen from the package itself."""
    if not node.level:
        return node.module or ""
    folder = name.split(".")[: -node.level]
    return "." + ".".join([*folder, *([node.module] if node.module else [])])


class Translation(ast.NodeTransformer):
    """Turns a declaration into its synchronous form."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename what has another name here."""
        return ast.Name(RENAMED.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Say of a generator what it yields; that nothing is sent to it is the default."""
        if isinstance(node.value, ast.Name) and node.value.id == "AsyncGenerator":
            assert isinstance(node.slice, ast.Tuple)
            return ast.Subscript(self.visit(node.value), self.visit(node.slice.elts[0]))
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Drop from a union what is left out, and what became the same."""
        parts = {}
        for part in _union(node):
            if not (isinstance(part, ast.Name) and part.id in LEFT_OUT_TYPES):
                translated = self.visit(part)
                parts[ast.unparse(translated)] = translated
        return ast.parse(" | ".join(parts), mode="eval").body


def _union(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _union(node.left)
        yield from _union(node.right)
    else:
        yield node


def declaration(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    """Return the synchronous declaration of a method."""
    old = function.args
    keywords = [
        (one, default)
        for one, default in zip(old.kwonlyargs, old.kw_defaults, strict=True)
        if one.arg not in LEFT_OUT_PARAMETERS
    ]
    arguments = ast.arguments(
        posonlyargs=old.posonlyargs,
        args=old.args,
        vararg=old.vararg,
        kwonlyargs=[one for one, _ in keywords],
        kw_defaults=[default and _default(default) for _, default in keywords],
        kwarg=old.kwarg,
        defaults=[_default(default) for default in old.defaults],
    )
    (made,) = ast.parse(f"def {function.name}(): ...").body
    assert isinstance(made, ast.FunctionDef)
    made.args, made.returns, made.decorator_list = arguments, function.returns, function.decorator_list
    translated = Translation().visit(made)
    assert isinstance(translated, ast.FunctionDef)
    for decorator in translated.decorator_list:
        if ast.unparse(decorator) not in DECORATORS:
            raise StubError(
                f"{function.name}: a decorator without a synchronous form: {ast.unparse(decorator)}"
            )
    return ast.fix_missing_locations(translated)


def _default(default: ast.expr) -> ast.expr:
    literal = isinstance(default, ast.Constant) or (isinstance(default, ast.Tuple) and not default.elts)
    return default if literal else ast.Constant(...)


class Stub:
    """The stub in the making."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self.homes = dict(OWN_IMPORTS)
        self.classes: dict[str, ast.ClassDef] = {}

    def add(self, module_name: str, class_name: str) -> str:
        """Add a class and those it inherits from; return its name in the stub."""
        name = SYNC_NAMES.get(class_name, f"_{class_name}")
        if name not in self.classes:
            module = self._module(module_name)
            source = module.classes[class_name]
            bases = [self._add_base(module, base) for base in source.bases]
            owns = any(
                isinstance(node, ast.AsyncFunctionDef) and node.name == "close" for node in source.body
            )
            (made,) = ast.parse(f"class {name}: ...").body
            assert isinstance(made, ast.ClassDef)
            made.bases = [ast.Name(base) for base in bases]
            members = [*self._members(module, source, owns), *(ast.parse(OWNER).body if owns else [])]
            made.body = members or made.body
            self.classes[name] = ast.fix_missing_locations(made)
        return name

    def _add_base(self, module: Module, base: ast.expr) -> str:
        name = ast.unparse(base)
        if name not in module.homes or not module.homes[name].startswith("."):
            raise StubError(f"a base class of another package: {name}")
        return self.add(module.homes[name][1:], name)

    def _module(self, name: str) -> Module:
        if name not in self.modules:
            self.modules[name] = read(name)
        return self.modules[name]

    def _members(self, module: Module, source: ast.ClassDef, owns: bool) -> Iterator[ast.stmt]:
        overloaded = {node.name for node in _functions(source) if _is_overload(node)}
        for node in _functions(source):
            public = not node.name.startswith("_") and node.name not in LEFT_OUT_MEMBERS
            implementation = node.name in overloaded and not _is_overload(node)
            if (public or (owns and node.name == "__init__")) and not implementation:
                made = declaration(node)
                self._import(module, made)
                yield made

    def _import(self, module: Module, made: ast.FunctionDef) -> None:
        for node in ast.walk(made):
            if isinstance(node, ast.Name) and node.id in module.homes and node.id not in BUILTIN:
                self.homes.setdefault(node.id, module.homes[node.id])

    def text(self) -> str:
        """Return the stub's text, unformatted."""
        code = "\n".join([*(ast.unparse(one) for one in self.classes.values()), FUNCTION])
        used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        return (
            HEAD
            + "\n".join(_imports({name: self.homes[name] for name in self.homes if name in used}))
            + "\n"
            + code
        )


def _functions(source: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in source.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def _imports(homes: dict[str, str]) -> Iterable[str]:
    for home in sorted(set(homes.values()), key=lambda home: (home.startswith("."), home)):
        yield f"from {home} import {', '.join(sorted(name for name in homes if homes[name] == home))}"


def make_stub() -> str:
    """Return the text of the stub, unformatted."""
    stub = Stub()
    for module, name in SOURCES:
        stub.add(module, name)
    return stub.text()


def main() -> None:
    """Write the stub and format it."""
    import subprocess

    target = PACKAGE / "sync.pyi"
    target.write_text(make_stub(), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "--quiet", "--fix", "--select", "I", str(target)], check=True)
    subprocess.run([*ruff, "format", "--quiet", str(target)], check=True)


if __name__ == "__main__":
    main()
