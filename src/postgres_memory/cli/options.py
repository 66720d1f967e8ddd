"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="URL",
        show_default=False,
        help="The database, as postgresql://… . Without it: POSTGRES_MEMORY_DSN, then DATABASE_URL, then the "
        "embedded server. Other users of the machine can see arguments: give a password in a variable.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", envvar="POSTGRES_MEMORY_NAMESPACE", help="The namespace: whose memory it is."
    ),
]
Schema = Annotated[str, typer.Option("--schema", help="The database schema that holds the tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text or a table.")]
As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="PRINCIPAL",
        show_default=False,
        help="Act as this principal: see and change only what it may. The database sees to it.",
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="POSTGRES_MEMORY_EMBEDDER",
        metavar="SPEC",
        show_default=False,
        help="What makes vectors: openai:MODEL, with ,url=URL and ,dimensions=N where wanted, or onnx:FILE,name=SPACE, "
        "with ,tokenizer=FILE where wanted. A key goes into POSTGRES_MEMORY_EMBEDDER_KEY.",
    ),
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        show_default=False,
        help='Which memories: a condition such as {"importance": {"$gte": 0.5}, "metadata.topic": "tea"}.',
    ),
]
IncludeInactive = Annotated[
    bool, typer.Option("--include-inactive", help="Also superseded, archived and expired memories.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Id = Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The memory.")]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, help="How many at a time.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Which memory a command works on, and how it reports errors."""

    dsn: str | None = field(repr=False)
    namespace: str
    schema: str
    debug: bool
    principal: str | None = None
    embedder: str | None = None
    principal_role: str | None = None
    read_dsn: str | None = field(default=None, repr=False)
